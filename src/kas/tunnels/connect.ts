import { KasError } from '../../lib/errors.ts'
import type { ServerStream } from '../../proto/grpc/server-session.ts'
import { decodeConnectRequest } from '../../proto/reverse-tunnel.ts'
import type { Agent } from '../directory/directory.ts'
import type { AgentConnection } from './agent-connection.ts'
import { Tunnel } from './tunnel.ts'
import type { Tunnels } from './tunnels.ts'

/** Serves one Connect stream (wire-protocol 3.1): reads its descriptor, registers it, and ends as the tunnel ends. */
export async function serveConnect(
  tunnels: Tunnels,
  agent: Agent,
  connection: AgentConnection,
  stream: ServerStream,
): Promise<void> {
  const first = await stream.messages.next()
  if (first.done) return
  const methods = connection.describe(first.value, readDescriptor)
  if (connection.retired.aborted) return
  const tunnel = new Tunnel(stream, connection, methods)
  const stayed = connection.onRenew(() => {
    if (tunnel.state === 'idle') tunnel.retire()
  })
  tunnels.add(agent.id, tunnel)
  try {
    await tunnel.ended
  } finally {
    stayed()
  }
}

/** @returns `/package.Service/Method` of all that the agent serves */
function readDescriptor(bytes: Uint8Array): ReadonlySet<string> {
  const message = decodeConnectRequest(bytes)
  if (message.kind !== 'descriptor') {
    const detail = `forbidden transition from start to ${message.kind}, allowed: descriptor`
    throw new KasError({ code: 'INVALID_MESSAGE', detail })
  }
  const { services } = message.descriptor
  return new Set(services.flatMap(({ name, methods }) => methods.map((method) => `/${name}/${method.name}`)))
}
