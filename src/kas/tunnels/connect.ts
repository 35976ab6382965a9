import { KasError } from '../../lib/errors.ts'
import type { ServerStream } from '../../proto/grpc/server-session.ts'
import { decodeConnectRequest } from '../../proto/reverse-tunnel.ts'
import type { Agent } from '../directory/directory.ts'
import type { AgentConnection } from './agent-connection.ts'
import type { HeldConnections } from './held-connections.ts'
import { Tunnel } from './tunnel.ts'
import type { Tunnels } from './tunnels.ts'

/** An agent of today tells about 30 methods, in 2 KiB (design 6). */
export const maxDescriptorBytes = 64 * 1024
export const maxDescriptorMethods = 256

/** Serves one Connect stream (wire-protocol 3.1): reads its descriptor, registers it, and ends as the tunnel ends. */
export async function serveConnect(
  { tunnels, held }: { tunnels: Tunnels; held?: HeldConnections },
  { agent, connection, stream }: { agent: Agent; connection: AgentConnection; stream: ServerStream },
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
  held?.described(agent, connection, methods)
  try {
    await tunnel.ended
  } finally {
    stayed()
  }
}

/** @returns `/package.Service/Method` of all that the agent serves */
function readDescriptor(bytes: Uint8Array): ReadonlySet<string> {
  if (bytes.length > maxDescriptorBytes) {
    throw new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: bytes.length, maxBytes: maxDescriptorBytes })
  }
  const message = decodeConnectRequest(bytes)
  if (message.kind !== 'descriptor') {
    const detail = `forbidden transition from start to ${message.kind}, allowed: descriptor`
    throw new KasError({ code: 'INVALID_MESSAGE', detail })
  }
  const { services } = message.descriptor
  const names = new Set(services.flatMap(({ name, methods }) => methods.map((method) => `/${name}/${method.name}`)))
  if (names.size > maxDescriptorMethods) {
    const detail = `the descriptor names ${names.size} methods, allowed: ${maxDescriptorMethods}`
    throw new KasError({ code: 'INVALID_MESSAGE', detail })
  }
  return names
}
