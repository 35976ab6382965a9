import type { AgentId, Metadata } from '../../call/call.ts'
import type { Tracer } from '../../lib/tracing/tracer.ts'
import type { ServerStream } from '../../proto/grpc/server-session.ts'
import { type AgentPod, hasFeature, readAgentPod } from '../../proto/placement.ts'
import type { Agent } from '../agent.ts'
import type { AgentConnection } from './agent-connection.ts'
import { type Descriptions, maxFirstMessageBytes } from './descriptions.ts'
import type { PublishedConnections } from './published-connections.ts'
import { Tunnel } from './tunnel.ts'
import type { TunnelRegistry } from './tunnel-registry.ts'

/** What is told to agents that understand it, and again when it has changed. */
export interface ConnectHints {
  hints(connection: AgentConnection, agentId: AgentId, pod: string): Metadata | undefined
  idle(connection: AgentConnection, agentId: AgentId, end: () => boolean): () => void
}

export interface ConnectComponents {
  readonly tunnels: TunnelRegistry
  readonly descriptions: Descriptions
  readonly held?: PublishedConnections
  readonly hints?: ConnectHints
  /** an agent said more of a reply than is passed on */
  readonly onCut?: () => void
  readonly tracer: Tracer
}

interface ConnectCall {
  readonly agent: Agent
  readonly connection: AgentConnection
  readonly stream: ServerStream
}

/**
 * Serves one Connect stream (doc/reference/tunnel-protocol.md 3.1): reads its descriptor, registers it, and ends as the
 * tunnel ends.
 */
export async function serveConnect(components: ConnectComponents, call: ConnectCall): Promise<void> {
  const { tunnels, held, onCut, tracer } = components
  const { agent, connection, stream } = call
  const methods = await readMethods(components, call)
  if (!methods || connection.retired.aborted) return
  const { renewals } = connection
  const onIdle = () => {
    if (connection.renewals === renewals) tunnels.offer(agent.id, tunnel)
    else tunnel.retire()
  }
  const tunnel = new Tunnel(stream, connection, {
    methods,
    ...(hasFeature(stream.metadata, 'reuse') ? { onIdle } : {}),
    ...(onCut ? { onCut } : {}),
    tracer,
  })
  const end = () => {
    if (tunnel.state !== 'idle') return false
    tunnel.retire()
    return true
  }
  const stayed = connection.onRenew(agent.id, end)
  const pod = readAgentPod(stream.metadata)
  if (pod) connection.movesByItself = true
  held?.described(agent, connection, methods, pod)
  const endHints = pod && sendHints(components, call, { pod, end })
  stream.forgetMetadata()
  tunnels.add(agent.id, tunnel) // last: it may get its call at once, and then nothing else may be sent
  try {
    await tunnel.ended
  } finally {
    endHints?.()
    stayed()
  }
}

/** Apart from what waits for the tunnel's end, which would keep the message. @returns undefined: the stream has ended */
async function readMethods(
  { descriptions }: ConnectComponents,
  { agent, connection, stream }: ConnectCall,
): Promise<ReadonlySet<string> | undefined> {
  stream.messages.limit(maxFirstMessageBytes)
  const first = await stream.messages.next()
  if (first.done) return undefined
  stream.messages.limit(stream.session.limits.maxMessageBytes)
  return descriptions.of(agent.id, connection, first.value)
}

/** To a stock agent nothing is sent on an idle tunnel. @returns to be called at its end */
function sendHints(
  { hints }: ConnectComponents,
  { agent, connection, stream }: ConnectCall,
  { pod, end }: { pod: AgentPod; end: () => boolean },
): (() => void) | undefined {
  const metadata = hints?.hints(connection, agent.id, pod.name)
  if (metadata) stream.sendMetadata(metadata)
  return hints?.idle(connection, agent.id, end)
}
