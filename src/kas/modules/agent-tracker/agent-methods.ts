import { create, type DescMessage, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { KasError } from '../../../lib/errors.ts'
import { decodeMessage } from '../../../proto/decode.ts'
import {
  AgentRegistrar,
  RegisterRequestSchema,
  RegisterResponseSchema,
  UnregisterRequestSchema,
  UnregisterResponseSchema,
} from '../../../proto/gen/agent_registrar_pb.ts'
import type { AgentMeta } from '../../../proto/gen/entity_pb.ts'
import { methodPath, readOne, readOneMessage } from '../../../proto/unary.ts'
import { fieldBytes } from '../../../proto/wire/wire.ts'
import type { Agent } from '../../agent.ts'
import type { AgentCall, AgentMethod } from '../../agent-method.ts'
import type { Usage } from '../../directory/usage.ts'
import type { OwnRegistrations } from './own-registrations.ts'

export interface AgentTrackerComponents {
  readonly own: OwnRegistrations
  /** counts each registration */
  readonly usage: Pick<Usage, 'event'>
}

/** AgentMeta has at most 4 KiB. */
const maxMessageBytes = 16 * 1024
/** Rate for 500 pods at once with the longest AgentMeta, and 50 a second: each registers again after five minutes. */
const rate = { perSecond: 300, burst: 3000, cost: { call: 1, message: 1, kib: 1 } }

/**
 * Methods of AgentRegistrar: pods register, again every five minutes, and unregister when they leave.
 *
 * @see doc/reference/tunnel-protocol.md 1.6
 */
export function agentTrackerMethods({ own, usage }: AgentTrackerComponents): Readonly<Record<string, AgentMethod>> {
  const registered = usage.event<RegisterEvent>('register_agent_at_kas')
  return {
    [methodPath(AgentRegistrar.method.register)]: unary(RegisterResponseSchema, async ({ agent, messages }) => {
      const bytes = await readOneMessage(messages)
      const { podId, agentMeta } = decodeMessage(RegisterRequestSchema, bytes)
      const meta = fieldBytes(bytes, 1)
      if (!meta || !agentMeta) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'agent_meta is required' })
      own.register(agent, podId, meta)
      registered(registerEvent(agent, agentMeta))
    }),
    [methodPath(AgentRegistrar.method.unregister)]: unary(UnregisterResponseSchema, async ({ agent, messages }) => {
      const { podId } = await readOne(UnregisterRequestSchema, messages)
      own.unregister(agent, podId)
    }),
  }
}

function unary<Schema extends DescMessage>(
  schema: Schema,
  take: (call: Pick<AgentCall, 'agent' | 'messages'>) => Promise<void>,
): AgentMethod {
  const serve = async (call: AgentCall) => {
    await take(call)
    await call.send(toBinary(schema, create(schema, {} as MessageInitShape<Schema>)))
  }
  return { type: 'unary', patient: false, maxMessageBytes, rate, serve }
}

interface RegisterEvent {
  readonly project_id: bigint
  readonly agent_id: bigint
  readonly agent_version: string
  readonly architecture: string
  readonly kubernetes_version: string
  readonly extra_telemetry_data: Readonly<Record<string, string>>
}

/** characters of a text from the pod; versions are a third of it */
const maxTextLength = 64

/**
 * Returns GitLab's event about a pod that registers (doc/reference/tunnel-protocol.md 8.2). Telemetry of the chart has
 * no known field (doc/reference/tunnel-protocol.md 1.19).
 */
export function registerEvent(agent: Agent, meta: AgentMeta): RegisterEvent {
  const { gitVersion = '', platform = '' } = meta.kubernetesVersion ?? {}
  return {
    project_id: agent.project.id,
    agent_id: agent.id,
    agent_version: cut(meta.version),
    architecture: cut(/^[^/]*\/([^/]*)/.exec(platform)?.[1] ?? ''),
    kubernetes_version: cut(gitVersion),
    extra_telemetry_data: {},
  }
}

function cut(text: string): string {
  return text.length > maxTextLength ? `${text.slice(0, maxTextLength).toWellFormed()}…` : text
}
