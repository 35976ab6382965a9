import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import type { Serve } from '../../../../src/agentk/tunnels/serve.ts'
import type { AgentId } from '../../../../src/call/call.ts'
import { kasCaller } from '../../../../src/call/caller.ts'
import { KnownMessages } from '../../../../src/call/known-messages.ts'
import { callerMessage } from '../../../../src/kas/agent-caller.ts'
import {
  DriftRequestSchema,
  type DriftResponse,
  DriftResponseSchema,
  Gitops,
} from '../../../../src/proto/gen/gitops_drift_pb.ts'
import { methodPath } from '../../../../src/proto/unary.ts'

/** Methods that agentk serves now, by path. */
export type Methods = ReadonlyMap<string, Serve>

export const user = (username: string) => ({ username, groups: [], uid: '', extra: [] })

/** Calls a method of agentk, as kas does. @returns the messages of its reply. @throws the error of the reply */
export async function askAgentk(methods: Methods, method: string, request: Uint8Array): Promise<Uint8Array[]> {
  const reply = await methods.get(method)?.({
    agentId: 42n as AgentId,
    method,
    metadata: {},
    messages: new KnownMessages([request]),
    safety: 'safe',
    caller: kasCaller,
    signal: new AbortController().signal,
  })
  if (!reply) throw new Error(`${method} is not served`)
  const messages = await Array.fromAsync(reply.messages)
  const { error } = await reply.done
  if (error) throw error
  return messages as Uint8Array[]
}

export interface AskedDrift {
  /** id */
  readonly source: string
  /** compares all objects first */
  readonly scan?: boolean
  /** absent: who asks acts as the agent */
  readonly as?: string | undefined
}

/** Asks agentk what differs. @returns the objects of its answer, the end, and all as text */
export async function askDrift(methods: Methods, { as, ...asked }: AskedDrift) {
  const caller = callerMessage({ key: as ?? 'agent' }, as === undefined ? undefined : user(`gitlab:user:${as}`))
  const request = create(DriftRequestSchema, { caller, scan: false, ...asked })
  const found = await askAgentk(methods, methodPath(Gitops.method.drift), toBinary(DriftRequestSchema, request))
  const whats = found.map((bytes) => fromBinary(DriftResponseSchema, bytes).what)
  const of = <Case extends 'object' | 'end'>(name: Case) =>
    whats.flatMap((what) => (what.case === name ? [what.value] : [])) as Extract<
      DriftResponse['what'],
      { case: Case }
    >['value'][]
  const text = JSON.stringify(whats, (_, one) => (typeof one === 'bigint' ? String(one) : one))
  return { objects: of('object'), end: of('end')[0], text }
}
