import { create, type DescMessage, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { KasError } from '../../../lib/errors.ts'
import {
  RegisterRequestSchema,
  RegisterResponseSchema,
  UnregisterRequestSchema,
  UnregisterResponseSchema,
} from '../../../proto/gen/agent_registrar_pb.ts'
import { decodeMessage, readOne, readOneMessage } from '../../../proto/grpc/unary.ts'
import { fieldBytes } from '../../../proto/wire/field-bytes.ts'
import type { Agent } from '../../agent.ts'
import type { Usage } from '../../directory/usage.ts'
import type { ConnectedAgents } from './own-registrations.ts'
import { registerEvent } from './register-event.ts'

const service = '/gitlab.agent.agent_registrar.rpc.AgentRegistrar'

/** What the module needs of a call; a ServerStream has it. */
export interface UnaryStream {
  readonly messages: AsyncIterable<Uint8Array>
  send(message: Uint8Array): Promise<void> | undefined
}

type AgentHandler = (agent: Agent, stream: UnaryStream) => Promise<void>

/**
 * Handlers of AgentRegistrar by method: pods tell that they are there, every five minutes, and that they go.
 *
 * @see doc/reference/tunnel-protocol.md 1.6
 */
export function agentTrackerHandlers({
  connectedAgents,
  usage,
}: {
  connectedAgents: ConnectedAgents
  /** hears of each registration */
  usage: Pick<Usage, 'event'>
}): ReadonlyMap<string, AgentHandler> {
  return new Map<string, AgentHandler>([
    [
      `${service}/Register`,
      async (agent, stream) => {
        const bytes = await readOneMessage(stream.messages)
        const { podId, agentMeta } = decodeMessage(RegisterRequestSchema, bytes)
        const meta = fieldBytes(bytes, 1)
        if (!meta || !agentMeta) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'agent_meta is required' })
        connectedAgents.register(agent, podId, meta)
        usage.event('register_agent_at_kas', registerEvent(agent, agentMeta))
        await respond(stream, RegisterResponseSchema)
      },
    ],
    [
      `${service}/Unregister`,
      async (agent, stream) => {
        const { podId } = await readOne(UnregisterRequestSchema, stream.messages)
        connectedAgents.unregister(agent, podId)
        await respond(stream, UnregisterResponseSchema)
      },
    ],
  ])
}

async function respond<Schema extends DescMessage>(stream: UnaryStream, schema: Schema): Promise<void> {
  await stream.send(toBinary(schema, create(schema, {} as MessageInitShape<Schema>)))
}
