import { KasError } from '../../lib/errors.ts'
import type { Tracer } from '../../lib/tracing/tracer.ts'
import type { AgentId, Metadata } from '../../proto/call.ts'
import type { ServerStream } from '../../proto/grpc/server-session.ts'
import { decodeConnectRequest } from '../../proto/reverse-tunnel.ts'
import type { Agent } from '../directory/directory.ts'
import type { AgentConnection } from './agent-connection.ts'
import { type AgentPod, readAgentPod, reusesTunnels } from './agent-pod.ts'
import type { HeldConnections } from './held-connections.ts'
import { Tunnel } from './tunnel.ts'
import type { Tunnels } from './tunnels.ts'

/** An agent of today tells about 30 methods, in 2 KiB (design 6). */
export const maxDescriptorBytes = 64 * 1024
export const maxDescriptorMethods = 256

/** What is told to agents that understand it, and again when it has changed. */
export interface ConnectHints {
  hints(connection: AgentConnection, agentId: AgentId, pod: string): Metadata | undefined
  idle(connection: AgentConnection, agentId: AgentId, end: () => boolean): () => void
}

export interface ConnectComponents {
  readonly tunnels: Tunnels
  readonly held?: HeldConnections
  readonly hints?: ConnectHints
  /** absent: nothing is traced */
  readonly tracer?: Tracer
}

interface ConnectCall {
  readonly agent: Agent
  readonly connection: AgentConnection
  readonly stream: ServerStream
}

/** Serves one Connect stream (wire-protocol 3.1): reads its descriptor, registers it, and ends as the tunnel ends. */
export async function serveConnect(components: ConnectComponents, call: ConnectCall): Promise<void> {
  const { tunnels, held, tracer } = components
  const { agent, connection, stream } = call
  const first = await stream.messages.next()
  if (first.done) return
  const methods = connection.describe(first.value, readDescriptor)
  if (connection.retired.aborted) return
  const { renewals } = connection
  const onIdle = () => {
    if (connection.renewals === renewals) tunnels.offer(agent.id, tunnel)
    else tunnel.retire()
  }
  const tunnel = new Tunnel(stream, connection, {
    methods,
    ...(reusesTunnels(stream.metadata) ? { onIdle } : {}),
    ...(tracer ? { tracer } : {}),
  })
  const end = () => {
    if (tunnel.state !== 'idle') return false
    tunnel.retire()
    return true
  }
  const stayed = connection.onRenew(end)
  const pod = readAgentPod(stream.metadata)
  if (pod) connection.movesByItself = true
  held?.described(agent, connection, methods, pod)
  const told = pod && tellHints(components, call, { pod, end })
  tunnels.add(agent.id, tunnel) // last: it may get its call at once, and then nothing else may be sent
  try {
    await tunnel.ended
  } finally {
    told?.()
    stayed()
  }
}

/** To a stock agent nothing is sent on an idle tunnel. @returns to be called at its end */
function tellHints(
  { hints }: ConnectComponents,
  { agent, connection, stream }: ConnectCall,
  { pod, end }: { pod: AgentPod; end: () => boolean },
): (() => void) | undefined {
  const metadata = hints?.hints(connection, agent.id, pod.name)
  if (metadata) stream.sendMetadata(metadata)
  return hints?.idle(connection, agent.id, end)
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
