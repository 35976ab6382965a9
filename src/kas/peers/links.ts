import { Gauge } from 'prom-client'
import type { AgentId } from '../../call/call.ts'
import { type Clock, monotonicClock } from '../../lib/clock.ts'
import { parseHostPort } from '../../lib/host-port.ts'
import { KeyedListeners, Listeners } from '../../lib/listeners.ts'
import type { Logger } from '../../lib/log.ts'
import type { Registry } from '../../lib/metrics.ts'
import type { Service } from '../../lib/service.ts'
import { serverAttributes } from '../../lib/tracing/attributes.ts'
import type { Tracer } from '../../lib/tracing/tracer.ts'
import type { InstanceId, Membership, Row } from '../../membership/membership.ts'
import type { ReplicaMemory } from '../memory/replica-memory.ts'
import { maxWideBytesPerAgent, UnreadByAgent } from '../memory/unread-by-agent.ts'
import { dialReplica } from './dial-replica.ts'
import { defaultLink, isUsable, Link, type LinkOptions, type Reach, reaches } from './link.ts'
import { LinkWarnings } from './link-warnings.ts'
import type { ReplicaIdentity } from './replica-identity.ts'

/** A peer that holds an agent, and the link to it. */
export interface Candidate {
  readonly instance: InstanceId
  readonly link: Link
  /** version of the peer's row at the last change of the agent's connections; earlier answers no longer count */
  readonly version: number
}

interface RankedCandidate extends Candidate {
  /** the peer leaves: it takes calls only if no other one does */
  readonly isLeaving: boolean
}

export interface LinksComponents {
  readonly membership: Pick<
    Membership,
    'instance' | 'holders' | 'rows' | 'rank' | 'onChange' | 'announce' | 'addressOf'
  >
  readonly identity: ReplicaIdentity
  readonly log: Logger
  /** default `dialReplica` */
  readonly dial?: typeof dialReplica
  /** absent: a budget of its own */
  readonly memory?: ReplicaMemory
  readonly tracer: Tracer
  /** default `monotonicClock` */
  readonly clock?: Clock
}

/** Lists of candidates that are kept, by agent and method; all are dropped when there are more. */
const maxKeptLists = 10_000

const reachOrder: Readonly<Record<Reach, number>> = { reachable: 0, suspect: 1, unreachable: 2, down: 3 }

/** Keeps links to all peers, and finds the peers that hold an agent. */
export class Links implements Service {
  readonly #components: LinksComponents
  readonly #options: LinkOptions
  readonly #clock: Clock
  readonly #links = new Map<InstanceId, { readonly link: Link; readonly address: string }>()
  /** links to peers that are no longer members, while calls on them run */
  readonly #retired = new Set<Link>()
  readonly #listeners = new KeyedListeners<AgentId>()
  /** candidates in the order of the ring, by method; valid until a row changes */
  readonly #candidates = new Map<AgentId, Map<string, readonly RankedCandidate[]>>()
  #keptLists = 0
  readonly #onReached = new Listeners<InstanceId>()
  readonly #onPeers = new Listeners()
  readonly #reached = new Set<InstanceId>()
  readonly #unreadByAgent: UnreadByAgent
  readonly #warnings: LinkWarnings
  #unsubscribe: (() => void) | undefined

  constructor(components: LinksComponents, options: LinkOptions = defaultLink) {
    this.#components = components
    this.#unreadByAgent = new UnreadByAgent(components.memory, { maxWideBytes: maxWideBytesPerAgent })
    this.#options = options
    this.#clock = components.clock ?? monotonicClock
    this.#warnings = new LinkWarnings({ clock: this.#clock, log: components.log })
  }

  async start(): Promise<void> {
    this.#unsubscribe = this.#components.membership.onChange((change) => {
      if (change.kind === 'members') {
        this.#update()
        this.#changed()
      } else if (change.kind === 'connections') {
        for (const agentId of change.agentIds) this.#forget(agentId)
        for (const agentId of change.agentIds) this.#listeners.notify(agentId)
      }
    })
    this.#update()
  }

  async stop(): Promise<void> {
    this.#unsubscribe?.()
    this.#warnings.stop()
    for (const { link } of this.#links.values()) link.close()
    for (const link of this.#retired) link.close()
    this.#links.clear()
  }

  /** Calls `listener` when another peer may hold the agent or be reachable, until the returned function is called. */
  onChange(agentId: AgentId, listener: () => void): () => void {
    return this.#listeners.add(agentId, listener)
  }

  /** Calls `listener` with each peer that has become reachable. */
  onReached(listener: (instance: InstanceId) => void): void {
    this.#onReached.add(listener)
  }

  /** Calls `listener` after a peer came or left, or the state of its link changed. */
  onPeers(listener: () => void): void {
    this.#onPeers.add(listener)
  }

  /** Returns the link to a peer, whatever agents it holds. */
  link(instance: InstanceId): Link | undefined {
    return this.#links.get(instance)?.link
  }

  /** State of each link. */
  reaches(): Reach[] {
    return Array.from(this.#links.values(), ({ link }) => link.reach)
  }

  /** True if another replica holds a connection of the agent that does not retire. */
  holds(agentId: AgentId): boolean {
    const { membership } = this.#components
    return membership.holders(agentId).some(({ methods }) => methods.size > 0)
  }

  /** True if another replica holds a connection of the agent that serves the method. */
  serves(agentId: AgentId, method: string): boolean {
    return this.#components.membership.holders(agentId).some(({ methods }) => methods.has(method))
  }

  /**
   * Peers that serve the method for the agent, best first. The order is by reachability, peers that stay before those
   * that leave, fewest calls of this replica, and the ring.
   */
  candidates(agentId: AgentId, method: string): readonly Candidate[] {
    const candidates = this.#candidates.get(agentId)?.get(method) ?? this.#find(agentId, method)
    return candidates.length < 2 ? candidates : candidates.toSorted(betterFirst)
  }

  #find(agentId: AgentId, method: string): readonly RankedCandidate[] {
    const { membership } = this.#components
    const names = membership.rank(String(agentId))
    const rank = ({ name }: Row['head']) => (names.includes(name) ? names.indexOf(name) : names.length)
    const holders = membership.holders(agentId).filter(({ methods }) => methods.has(method))
    const candidates = holders
      .toSorted(({ row: one }, { row: other }) => rank(one.head) - rank(other.head))
      .flatMap(({ row: { instance, version, head } }) => {
        const link = this.link(instance)
        return link ? { instance, link, version, isLeaving: head.state === 'leaving' } : []
      })
    if (candidates.length > 0) this.#keep(agentId, method, candidates) // else not kept: calls may name any method
    return candidates
  }

  #keep(agentId: AgentId, method: string, candidates: readonly RankedCandidate[]): void {
    if (this.#keptLists >= maxKeptLists) this.#forgetAll()
    const byMethod = this.#candidates.get(agentId) ?? new Map<string, readonly RankedCandidate[]>()
    this.#candidates.set(agentId, byMethod.set(method, candidates))
    this.#keptLists += 1
  }

  #forget(agentId: AgentId): void {
    this.#keptLists -= this.#candidates.get(agentId)?.size ?? 0
    this.#candidates.delete(agentId)
  }

  #forgetAll(): void {
    this.#candidates.clear()
    this.#keptLists = 0
  }

  #update(): void {
    this.#forgetAll()
    const { membership } = this.#components
    const rows = membership.rows().filter(({ instance }) => instance !== membership.instance)
    const living = new Set(rows.map(({ instance }) => instance))
    for (const [instance, { link }] of this.#links) {
      if (living.has(instance)) continue
      this.#retire(link)
      this.#links.delete(instance)
    }
    for (const row of rows) {
      const address = membership.addressOf(row)
      const known = this.#links.get(row.instance)
      if (address === undefined || known?.address === address || row.head.replicaPort === 0) continue
      if (known) this.#retire(known.link)
      this.#links.set(row.instance, { link: this.#connect(address, row.head), address })
    }
  }

  /** Retires the link: a peer that gossip has lost may still run its calls to their end. */
  #retire(link: Link): void {
    this.#retired.add(link)
    void link.retire().then(() => this.#retired.delete(link))
  }

  #connect(address: string, { name: peer, publicKeyHash }: Row['head']): Link {
    const { identity, membership, log, tracer, dial = dialReplica } = this.#components
    const { windows } = this.#unreadByAgent
    const { host = address, port = 0 } = parseHostPort(address) ?? {}
    const link = new Link(
      {
        dial: (signal) => dial({ address, publicKeyHash, identity, windows }, signal),
        clock: this.#clock,
        random: Math.random,
        log: log.child({ net_address: address }),
        unreadByAgent: this.#unreadByAgent,
        peer,
        onChange: () => this.#changed(),
        onUnknown: () => membership.announce(),
        tracer,
        attributes: serverAttributes(host, port),
      },
      this.#options,
    )
    link.open()
    return link
  }

  /** Notifies everybody: a changed link may concern every agent. */
  #changed(): void {
    this.#warn()
    this.#notifyReached()
    this.#onPeers.notify()
    this.#listeners.notifyAll()
  }

  #notifyReached(): void {
    const isReached = (instance: InstanceId) => isUsable(this.link(instance)?.reach ?? 'down')
    for (const instance of this.#reached) if (!isReached(instance)) this.#reached.delete(instance)
    for (const instance of this.#links.keys()) {
      if (!isReached(instance) || this.#reached.has(instance)) continue
      this.#reached.add(instance)
      this.#onReached.notify(instance)
    }
  }

  /** Checks links to peers that serve; peers that join or leave may well be unreachable. */
  #warn(): void {
    const serving = this.#components.membership.rows().filter(({ head }) => head.state === 'serving')
    const watched = serving.flatMap(({ instance, head: { name } }) => {
      const known = this.#links.get(instance)
      return known ? [{ instance, name, ...known }] : []
    })
    this.#warnings.check(watched)
  }
}

function betterFirst(one: RankedCandidate, other: RankedCandidate): number {
  return (
    reachOrder[one.link.reach] - reachOrder[other.link.reach] ||
    Number(one.isLeaving) - Number(other.isLeaving) ||
    one.link.calls - other.link.calls
  )
}

/** Creates the metric that counts links to peers by state; read at each scrape. */
export function createLinkMetrics(register: Registry, replicas: { reaches(): Iterable<Reach> }): void {
  new Gauge({
    name: 'kas_replica_links',
    help: 'Links to other replicas, by whether they answer',
    labelNames: ['reach'],
    registers: [register],
    collect() {
      for (const reach of reaches) this.set({ reach }, 0)
      for (const reach of replicas.reaches()) this.inc({ reach })
    },
  })
}
