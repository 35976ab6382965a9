import type { AgentId, Metadata } from '../../call/call.ts'
import type { Tracer } from '../../lib/tracing/tracer.ts'
import type { ServerStream } from '../../proto/grpc/server-stream.ts'
import { hasFeature, readAgentPod } from '../../proto/placement.ts'
import type { Agent } from '../agent.ts'
import type { AgentConnection } from './agent-connection.ts'
import { type Descriptions, maxFirstMessageBytes } from './descriptions.ts'
import type { PublishedConnections } from './published-connections.ts'
import { Tunnel } from './tunnel.ts'
import type { TunnelRegistry } from './tunnel-registry.ts'

/** What agents that understand hints are sent, and sent again when it changes. */
export interface ConnectHints {
  hints(connection: AgentConnection, agentId: AgentId, pod: string): Metadata | undefined
  idle(connection: AgentConnection, agentId: AgentId, end: () => boolean): () => void
}

export interface ConnectComponents {
  readonly tunnels: TunnelRegistry
  readonly descriptions: Descriptions
  readonly published?: PublishedConnections
  readonly hints?: ConnectHints
  /** an agent said more of a reply than is passed on */
  readonly onCut?: (() => void) | undefined
  /** it ended with an error, which the tunnel's call may have had */
  readonly onFailed?: ((stream: ServerStream, error: unknown) => void) | undefined
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
  const { agent, connection, stream } = call
  try {
    const tunnel = await openTunnel(components, call)
    if (!tunnel) return
    if (tunnel.state === 'ended') return await tunnel.ended // lost already
    connection.onRenew(agent.id, tunnel)
    const endHints = introduce(components, call, tunnel)
    stream.forgetMetadata()
    components.tunnels.add(agent.id, tunnel) // last: it may get its call at once, and then nothing else may be sent
    try {
      await tunnel.ended
    } finally {
      endHints?.()
      connection.offRenew(tunnel)
    }
  } catch (error) {
    components.onFailed?.(stream, error)
    throw error
  }
}

/** Apart from what waits for its end, which would keep what came first. @returns undefined: the stream is to end */
async function openTunnel(
  { tunnels, descriptions, onCut, tracer }: ConnectComponents,
  { agent, connection, stream }: ConnectCall,
): Promise<Tunnel | undefined> {
  stream.messages.limit(maxFirstMessageBytes)
  const first = await stream.messages.next()
  if (first.done) return undefined
  stream.messages.limit(stream.session.limits.maxMessageBytes)
  const methods = descriptions.of(agent.id, connection, first.value)
  if (connection.retired.aborted) return undefined
  if (!hasFeature(stream.metadata, 'reuse')) return new Tunnel(stream, connection, { methods, onCut, tracer })
  const { renewals } = connection
  const onIdle = () => {
    if (connection.renewals === renewals) tunnels.offer(agent.id, tunnel)
    else tunnel.retire()
  }
  const tunnel = new Tunnel(stream, connection, { methods, onIdle, onCut, tracer })
  return tunnel
}

/** Says what the agent serves, and to an agent that understands hints where it should be. @returns to be called at its end */
function introduce(
  components: ConnectComponents,
  { agent, connection, stream }: ConnectCall,
  tunnel: Tunnel,
): (() => void) | undefined {
  const { published, hints } = components
  const pod = readAgentPod(stream.metadata)
  published?.described(agent, connection, tunnel.methods, pod)
  if (!pod) return undefined // to a stock agent nothing is sent on an idle tunnel
  connection.movesByItself = true
  const metadata = hints?.hints(connection, agent.id, pod.name)
  if (metadata) stream.sendMetadata(metadata)
  return hints?.idle(connection, agent.id, () => tunnel.endIdle())
}
