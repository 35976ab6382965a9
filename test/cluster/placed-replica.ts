import type { Test } from 'tap'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import type { Forward } from '../../src/call/call.ts'
import { deliver } from '../../src/kas/router/delivery.ts'
import { Router } from '../../src/kas/router/router.ts'
import { defaultSearch } from '../../src/kas/router/tunnel-search.ts'
import type { AgentsServer } from '../../src/kas/servers/agents/agents-server.ts'
import { MemberPlacement } from '../../src/kas/tunnels/home-placement.ts'
import { PublishedConnections } from '../../src/kas/tunnels/published-connections.ts'
import { TunnelRegistry } from '../../src/kas/tunnels/tunnel-registry.ts'
import { monotonicClock } from '../../src/lib/clock.ts'
import { createLogger } from '../../src/lib/log.ts'
import { listenToAgents } from '../support/agents-server.ts'
import { type Replica, startReplica } from './replicas.ts'

/**
 * Parts of a replica that place agents: membership, the server for agents at an address of its own, and its own
 * tunnels.
 */
export interface PlacedReplica extends Replica {
  readonly name: string
  readonly agentAddress: string
  readonly tunnels: TunnelRegistry
  readonly agents: AgentsServer
  /** forwards by its own tunnels alone */
  readonly forward: Forward
  /** ends as a process that is killed, as far as agents and members can see */
  kill(): Promise<void>
}

export async function startPlacedReplica(t: Test, name: string, listed: readonly string[]): Promise<PlacedReplica> {
  const [port] = (await freePorts(1)) as [number]
  const agentAddress = `grpc://127.0.0.1:${port}`
  const replica = await startReplica(t, name, { listed, agentAddress })
  const { membership } = replica
  const log = createLogger({ level: 'silent' })
  const tunnels = new TunnelRegistry({ clock: monotonicClock })
  const published = new PublishedConnections({ row: membership, log })
  const placement = new MemberPlacement({ membership })
  const agents = await listenToAgents(
    t,
    { tunnels, published, placement },
    { listen: { port, host: '127.0.0.1' }, hints: { settleMs: 20, spreadMs: 1 } },
  )
  const observer = { routed: () => undefined, timedOut: () => undefined }
  const forward = deliver(new Router({ tunnels, observer }, { ...defaultSearch, findTimeoutMs: 500 }).forward)
  const kill = async () => {
    await Promise.all([agents.stop(), membership.stop()])
  }
  return { ...replica, name, agentAddress, tunnels, agents, forward, kill }
}
