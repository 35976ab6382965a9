import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import type { Test } from 'tap'
import { ApiClient } from '../../../../src/agentk/cluster/api-client.ts'
import { ClusterAccess } from '../../../../src/agentk/cluster/cluster-access.ts'
import { KnownMessages } from '../../../../src/call/known-messages.ts'
import { callerMessage } from '../../../../src/kas/agent-caller.ts'
import type { Field } from '../../../../src/proto/gen/gitops_drift_pb.ts'
import {
  type PreviewEnd,
  type PreviewedObject,
  PreviewRequestSchema,
  PreviewResponseSchema,
} from '../../../../src/proto/gen/gitops_preview_pb.ts'
import { Gitops } from '../../../../src/proto/gen/gitops_questions_pb.ts'
import { methodPath } from '../../../../src/proto/unary.ts'
import { callMessages, type Methods, user } from './drift-questions.ts'
import { type Ground, keyOf } from './ground.ts'

/** Asks agentk for previews, as kas does, and records the requests that each sends to the API server. */

type Request = Parameters<ApiClient['json']>

/** Request of a preview. */
export interface PreviewCall {
  readonly auditId: string
  readonly method: string
  readonly path: string
  readonly headers: readonly string[]
}

/** Client of the ground's API server that records all requests with an audit id. */
export class RecordingClient extends ApiClient {
  readonly calls: PreviewCall[] = []
  /** called before such a request is sent. @throws: the request fails so */
  onCall: (call: PreviewCall) => Promise<void> | void = () => undefined

  /** @param t - its teardown closes the client */
  static start(t: Pick<Test, 'teardown'>, { controlPlane }: Ground): RecordingClient {
    const { server, caFile, adminCertificateFile, adminKeyFile } = controlPlane
    const admin = { certificate: { file: adminCertificateFile }, key: { file: adminKeyFile } }
    const client = new RecordingClient(new ClusterAccess({ server, ca: { file: caFile }, ...admin }))
    t.teardown(() => client.close())
    return client
  }

  override async json(...request: Request): ReturnType<ApiClient['json']> {
    const [method, path, , , { headers = [] } = {}] = request
    const at = headers.indexOf('Audit-ID')
    if (at >= 0) {
      const call = { auditId: headers[at + 1] ?? '', method, path, headers }
      this.calls.push(call)
      await this.onCall(call)
    }
    return await super.json(...request)
  }

  /** Returns the requests of one preview as `GET /api/v1/…`. */
  of(auditId: string): string[] {
    return this.calls.filter((call) => call.auditId === auditId).map(({ method, path }) => `${method} ${path}`)
  }
}

export interface AskedPreview {
  readonly source: string
  /** default: the agent itself */
  readonly as?: string | undefined
  readonly values?: boolean
  readonly auditId?: string
}

type RequestPart = NonNullable<MessageInitShape<typeof PreviewRequestSchema>['what']>

/** Returns the messages of a request. */
export function previewRequest(
  files: Readonly<Record<string, string>>,
  { source, as, values = true, auditId = 'preview-1' }: AskedPreview,
): Uint8Array[] {
  const caller = callerMessage({ key: as ?? 'agent' }, as === undefined ? undefined : user(`gitlab:user:${as}`))
  const parts: RequestPart[] = [{ case: 'begin', value: { caller, source, auditId, values } }]
  for (const [path, text] of Object.entries(files)) {
    const half = Math.floor(text.length / 2)
    for (const data of [text.slice(0, half), text.slice(half)])
      parts.push({ case: 'file', value: { path, data: Buffer.from(data) } })
  }
  parts.push({ case: 'end', value: { files: Object.keys(files).length } })
  return parts.map((what) => toBinary(PreviewRequestSchema, create(PreviewRequestSchema, { what })))
}

export interface Answered {
  readonly objects: readonly PreviewedObject[]
  readonly end: PreviewEnd
  /** all messages, as text */
  readonly text: string
  readonly messages: readonly Uint8Array[]
}

/** @throws the error that ends the answer */
export async function askForPreview(
  methods: Methods,
  files: Readonly<Record<string, string>>,
  asked: AskedPreview,
): Promise<Answered> {
  const known = new KnownMessages(previewRequest(files, asked))
  const messages = await callMessages(methods, methodPath(Gitops.method.preview), known)
  const whats = messages.map((bytes) => fromBinary(PreviewResponseSchema, bytes).what)
  const objects = whats.flatMap((what) => (what.case === 'object' ? [what.value] : []))
  const [end] = whats.flatMap((what) => (what.case === 'end' ? [what.value] : []))
  if (!end) throw new Error('the answer has no end')
  const text = JSON.stringify(whats, (_, one) => (typeof one === 'bigint' ? String(one) : one))
  return { objects, end, text, messages }
}

/** @returns `changed ConfigMap shop/a`, `created? …` if it is not verified */
export function nameOf({ action, key, unverified }: PreviewedObject): string {
  const where = key?.namespace ? `${key.namespace}/` : ''
  return `${action}${unverified ? '?' : ''} ${key?.kind} ${where}${key?.name}`
}

/** @returns `changed .data.a "1" -> "9"` */
export function changeText({ kind, path, before, after, secretKey }: Field): string {
  return `${kind} ${path}${secretKey && `[${secretKey}]`} ${before ?? '-'} -> ${after ?? '-'}`
}

/** Counts of an end that are not 0. */
export function countsOf(end: PreviewEnd): Record<string, number> {
  const numbers = Object.entries(end).filter(([, value]) => typeof value === 'number' && value > 0)
  return Object.fromEntries(numbers) as Record<string, number>
}

const rbac = 'rbac.authorization.k8s.io'

export interface Rule {
  readonly apiGroups: readonly string[]
  readonly resources: readonly string[]
  readonly verbs?: readonly string[]
  readonly resourceNames?: readonly string[]
}

/** Allows a user some verbs, by default `get`. @param namespace - empty: in the whole cluster */
export async function allow(ground: Ground, name: string, rules: readonly Rule[], namespace = 'shop'): Promise<void> {
  const kind = namespace === '' ? 'ClusterRole' : 'Role'
  const metadata = { name, ...(namespace && { namespace }) }
  const all = rules.map((rule) => ({ verbs: ['get'], ...rule }))
  await ground.create(keyOf(kind, name, namespace, rbac), { metadata, rules: all })
  const subjects = [{ kind: 'User', name: `gitlab:user:${name}`, apiGroup: rbac }]
  const roleRef = { apiGroup: rbac, kind, name }
  await ground.create(keyOf(`${kind}Binding`, name, namespace, rbac), { metadata, subjects, roleRef })
}
