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

/** Hints for agents that understand them; sent again when they change. */
export interface ConnectHints {
  hints(connection: AgentConnection, agentId: AgentId, pod: string): Metadata | undefined
  idle(connection: AgentConnection, agentId: AgentId, end: () => boolean): () => void
}

export interface ConnectComponents {
  readonly tunnels: TunnelRegistry
  readonly descriptions: Descriptions
  readonly published?: PublishedConnections
  readonly hints?: ConnectHints
  /** Called when an agent sent more of a reply's status or metadata than is passed on. */
  readonly onCut?: (() => void) | undefined
  /** Called when the stream ended with an error, which the tunnel's call may have received too. */
  readonly onFailed?: ((stream: ServerStream, error: unknown) => void) | undefined
  readonly tracer: Tracer
}

interface ConnectCall {
  readonly agent: Agent
  readonly connection: AgentConnection
  readonly stream: ServerStream
}

/** Serves a Connect stream (doc/reference/tunnel-protocol.md 3.1) from its descriptor to the end of its tunnel. */
export async function serveConnect(components: ConnectComponents, call: ConnectCall): Promise<void> {
  const { agent, connection, stream } = call
  try {
    const tunnel = await openTunnel(components, call)
    if (!tunnel) return
    if (tunnel.state === 'ended') return await tunnel.ended // lost already
    connection.onRenew(agent.id, tunnel)
    const endHints = introduce(components, call, tunnel)
    stream.forgetMetadata()
    components.tunnels.add(agent.id, tunnel) // last: the tunnel may get its call at once; nothing else may be sent then
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

/**
 * Opens the tunnel in a function of its own, so that the long wait for its end does not keep the first message in
 * memory. @returns undefined: the stream should end
 */
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
    if (connection.renewals === renewals) tunnels.idleAgain(agent.id, tunnel)
    else tunnel.retire()
  }
  const tunnel = new Tunnel(stream, connection, { methods, onIdle, onCut, tracer })
  return tunnel
}

/** Publishes what the agent serves, and sends it hints if it understands them. @returns callback for the end */
function introduce(
  components: ConnectComponents,
  { agent, connection, stream }: ConnectCall,
  tunnel: Tunnel,
): (() => void) | undefined {
  const { published, hints } = components
  const pod = readAgentPod(stream.metadata)
  published?.described(agent, connection, tunnel.methods, pod)
  if (!pod) return undefined // nothing is sent to a stock agent on an idle tunnel
  connection.movesByItself = true
  const metadata = hints?.hints(connection, agent.id, pod.name)
  if (metadata) stream.sendMetadata(metadata)
  return hints?.idle(connection, agent.id, () => tunnel.endIdle())
}
