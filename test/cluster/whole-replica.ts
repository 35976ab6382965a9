import type { Test } from 'tap'
import type { AgentId, Forward } from '../../src/call/call.ts'
import { isUsable } from '../../src/kas/peers/link.ts'
import { Links } from '../../src/kas/peers/links.ts'
import { defaultReachability, type ReachabilityOptions } from '../../src/kas/peers/reachability.ts'
import { createReplicaIdentity } from '../../src/kas/peers/replica-identity.ts'
import { deliver } from '../../src/kas/router/delivery.ts'
import { Router } from '../../src/kas/router/router.ts'
import { defaultSearch, type SearchOptions } from '../../src/kas/router/tunnel-search.ts'
import { PublishedConnections } from '../../src/kas/tunnels/published-connections.ts'
import { TunnelRegistry } from '../../src/kas/tunnels/tunnel-registry.ts'
import { monotonicClock } from '../../src/lib/clock.ts'
import { createLogger } from '../../src/lib/log.ts'
import { noTracer } from '../../src/lib/tracing/tracer.ts'
import type { InstanceId } from '../../src/membership/membership.ts'
import type { MembershipTimers } from '../../src/membership/protocol/timers.ts'
import type { Handler } from '../../src/proto/grpc/server-stream.ts'
import { type AgentsDirectory, agentId, listenToAgents } from '../support/agents-server.ts'
import { eventually } from '../support/eventually.ts'
import { startReplicasServer } from '../support/replicas-server.ts'
import { startReplica } from './replicas.ts'

/** All parts of a replica that calls pass: membership, tunnels, router and the servers for agents and for replicas. */
export interface WholeReplica {
  readonly name: string
  readonly replica: Awaited<ReturnType<typeof startReplica>>
  readonly tunnels: TunnelRegistry
  readonly links: Links
  readonly agentsPort: number
  readonly forward: Forward
  readonly serves: Router['serves']
  /** ends as a process that is killed, without a message to others */
  kill(): Promise<void>
  readonly strangers: { count: number }
}

export interface WholeReplicaOptions {
  readonly listed?: readonly string[]
  readonly search?: Partial<SearchOptions>
  readonly reachability?: Partial<ReachabilityOptions>
  readonly timers?: Partial<MembershipTimers>
  /** default: `oneAgent` */
  readonly directory?: AgentsDirectory
  /** methods between replicas, for the replica of this name */
  readonly methods?: (name: string) => Readonly<Record<string, Handler>>
}

export async function startWholeReplica(
  t: Test,
  name: string,
  options: WholeReplicaOptions = {},
): Promise<WholeReplica> {
  const log = createLogger({ level: 'silent' })
  const identity = await createReplicaIdentity()
  const tunnels = new TunnelRegistry({ clock: monotonicClock })
  const { publicKeyHash } = identity
  const { listed = [], timers = {} } = options
  const replica = await startReplica(t, name, { listed, timers, publicKeyHash, replica: { port: 0 } })
  const { membership } = replica
  const isKnown = (hash: string) => membership.rows().some(({ head }) => head.publicKeyHash === hash)
  const { server: replicasServer, strangers } = await startReplicasServer(t, {
    components: { identity, tunnels, isKnown, methods: options.methods?.(name) ?? {} },
  })
  membership.setReplicaPort(replicasServer.address.port)
  const reachability = { ...defaultReachability, ...options.reachability }
  const links = new Links({ membership, identity, log, tracer: noTracer }, { reachability, redialMs: [5, 50] })
  await links.start()
  t.teardown(() => links.stop())
  const observer = { routed: () => undefined, timedOut: () => undefined }
  const router = new Router({ tunnels, observer, links }, { ...defaultSearch, ...options.search })
  const published = new PublishedConnections({ row: membership, log })
  const directory = options.directory ? { directory: options.directory } : {}
  const agents = await listenToAgents(t, { tunnels, published, ...directory })
  const forward = deliver(router.forward)
  const serves: Router['serves'] = (agent, method) => router.serves(agent, method)
  const kill = async () => {
    const none = AbortSignal.abort()
    await Promise.all([agents.stop(none), replicasServer.stop(none), links.stop()])
  }
  return { name, replica, tunnels, links, agentsPort: agents.address.port, forward, serves, kill, strangers }
}

/** Starts `count` replicas that know one another, and are linked. */
export async function startWholeReplicas(
  t: Test,
  count: number,
  options: WholeReplicaOptions = {},
): Promise<WholeReplica[]> {
  const all: WholeReplica[] = []
  for (let i = 0; i < count; i++) {
    const listed = all.map(({ replica }) => replica.address)
    all.push(await startWholeReplica(t, `kas-${i}`, { ...options, listed }))
  }
  for (const one of all) {
    for (const other of all) {
      if (one !== other) await linked(one, other)
    }
  }
  return all
}

/** Resolves when `one` can hand calls over to `other`. */
export function linked(one: WholeReplica, other: WholeReplica): Promise<void> {
  return reaches(one, other.replica.membership.instance)
}

/**
 * Resolves when the replica has a usable link to `instance`. On a busy machine a link may be suspect for a moment; it
 * can be used, and the end of that moment causes no event.
 */
export async function reaches({ links }: WholeReplica, instance: InstanceId): Promise<void> {
  const onChange = (listener: () => void) => links.onChange(agentId, listener)
  await eventually(() => isUsable(links.link(instance)?.reach ?? 'down'), { onChange })
}

/** Resolves when `one` knows that `holder` holds the agent. */
export async function knows(one: WholeReplica, holder: WholeReplica, agent: AgentId = agentId): Promise<void> {
  const { membership } = one.replica
  const { instance } = holder.replica.membership
  await eventually(() => membership.holders(agent).some(({ row }) => row.instance === instance), membership)
}
