import { create, type DescMessage, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { KasError } from '../../../lib/errors.ts'
import { fieldBytes } from '../../../proto/field-bytes.ts'
import {
  RegisterRequestSchema,
  RegisterResponseSchema,
  UnregisterRequestSchema,
  UnregisterResponseSchema,
} from '../../../proto/gen/agent_registrar_pb.ts'
import type { Agent } from '../../directory/directory.ts'
import type { ConnectedAgents } from './connected-agents.ts'

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
 * @see wire-protocol 1.6
 */
export function agentTrackerHandlers({
  connectedAgents,
}: {
  connectedAgents: ConnectedAgents
}): ReadonlyMap<string, AgentHandler> {
  return new Map<string, AgentHandler>([
    [
      `${service}/Register`,
      async (agent, stream) => {
        const { bytes, podId } = await readRequest(stream, RegisterRequestSchema)
        const meta = fieldBytes(bytes, 1)
        if (!meta) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'agent_meta is required' })
        connectedAgents.register(agent, podId, meta)
        await respond(stream, RegisterResponseSchema)
      },
    ],
    [
      `${service}/Unregister`,
      async (agent, stream) => {
        const { podId } = await readRequest(stream, UnregisterRequestSchema)
        connectedAgents.unregister(agent, podId)
        await respond(stream, UnregisterResponseSchema)
      },
    ],
  ])
}

async function readRequest(
  stream: UnaryStream,
  schema: typeof RegisterRequestSchema | typeof UnregisterRequestSchema,
): Promise<{ bytes: Uint8Array; podId: bigint }> {
  let bytes: Uint8Array | undefined
  for await (const message of stream.messages) {
    if (bytes) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'more than one request message' })
    bytes = message
  }
  if (!bytes) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'no request message' })
  try {
    const { podId } = fromBinary<typeof RegisterRequestSchema | typeof UnregisterRequestSchema>(schema, bytes)
    return { bytes, podId }
  } catch (cause) {
    throw new KasError({ code: 'INVALID_MESSAGE', detail: `malformed ${schema.typeName}` }, { cause })
  }
}

async function respond<Schema extends DescMessage>(stream: UnaryStream, schema: Schema): Promise<void> {
  await stream.send(toBinary(schema, create(schema, {} as MessageInitShape<Schema>)))
}
