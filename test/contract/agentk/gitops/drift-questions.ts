import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import type { Serve } from '../../../../src/agentk/tunnels/serve.ts'
import type { AgentId, Call } from '../../../../src/call/call.ts'
import { kasCaller } from '../../../../src/call/caller.ts'
import { KnownMessages } from '../../../../src/call/known-messages.ts'
import { callerMessage } from '../../../../src/kas/agent-caller.ts'
import {
  DriftRequestSchema,
  type DriftResponse,
  DriftResponseSchema,
  type Field,
} from '../../../../src/proto/gen/gitops_drift_pb.ts'
import { Gitops } from '../../../../src/proto/gen/gitops_questions_pb.ts'
import { methodPath } from '../../../../src/proto/unary.ts'

/** Methods that agentk serves. */
export type Methods = ReadonlyMap<string, Serve>

export const user = (username: string) => ({ username, groups: [], uid: '', extra: [] })

/** Calls a method of agentk, as kas does. @returns messages of the answer. @throws the error that ends it */
export async function call(methods: Methods, method: string, request: Uint8Array): Promise<Uint8Array[]> {
  return await callMessages(methods, method, new KnownMessages([request]))
}

/** Calls a method with several messages, as `call`. */
export async function callMessages(
  methods: Methods,
  method: string,
  messages: Call['messages'],
  signal = new AbortController().signal,
): Promise<Uint8Array[]> {
  const reply = await methods.get(method)?.({
    agentId: 42n as AgentId,
    method,
    metadata: {},
    messages,
    safety: 'safe',
    caller: kasCaller,
    signal,
  })
  if (!reply) throw new Error(`${method} is not served`)
  const answers = await Array.fromAsync(reply.messages)
  const { error } = await reply.done
  if (error) throw error
  return answers as Uint8Array[]
}

/**
 * Asks what differs.
 *
 * @param asked.as - name of a user; undefined: the agent itself
 */
export async function askForDrift(
  methods: Methods,
  { source, as, scan = false }: { readonly source: string; readonly as?: string | undefined; readonly scan?: boolean },
) {
  const caller = callerMessage({ key: as ?? 'agent' }, as === undefined ? undefined : user(`gitlab:user:${as}`))
  const request = create(DriftRequestSchema, { caller, source, scan })
  const found = await call(methods, methodPath(Gitops.method.drift), toBinary(DriftRequestSchema, request))
  const whats = found.map((bytes) => fromBinary(DriftResponseSchema, bytes).what)
  const of = <Case extends 'object' | 'end'>(name: Case) =>
    whats.flatMap((what) => (what.case === name ? [what.value] : [])) as Extract<
      DriftResponse['what'],
      { case: Case }
    >['value'][]
  const text = JSON.stringify(whats, (_, one) => (typeof one === 'bigint' ? String(one) : one))
  return { objects: of('object'), end: of('end')[0], text }
}

/** @returns `changed .data.a "1" -> "9" by kubectl-edit (Update)` */
export function fieldText({ kind, path, before, after, manager, operation, secretKey }: Field): string {
  const where = `${path || 'all'}${secretKey && `[${secretKey}]`}`
  return `${kind} ${where} ${before ?? '-'} -> ${after ?? '-'} by ${manager ? `${manager} (${operation})` : 'unknown'}`
}
