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
import { maxWideBytesPerAgent, UnreadByAgent } from '../tunnels/unread-by-agent.ts'
import { dialReplica } from './dial-replica.ts'
import { defaultLink, isUsable, Link, type LinkOptions, type Reach, reaches } from './link.ts'
import { LinkWarnings } from './link-warnings.ts'
import type { ReplicaIdentity } from './replica-identity.ts'

/** A peer that holds an agent, and the link to it. */
export interface Candidate {
  readonly instance: InstanceId
  readonly link: Link
  /** of its row, when the agent's connections changed last: an answer of before does not count any more */
  readonly version: number
}

interface RankedCandidate extends Candidate {
  /** it takes calls only if no other one does */
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
  /** absent: there is one of its own */
  readonly memory?: ReplicaMemory
  readonly tracer: Tracer
  /** default `monotonicClock` */
  readonly clock?: Clock
}

/** agents and methods whose candidates are kept; all are forgotten when there are more */
const maxKeptLists = 10_000

const reachOrder: Readonly<Record<Reach, number>> = { reachable: 0, suspect: 1, unreachable: 2, down: 3 }

/** Links to all peers, and which of them hold an agent. */
export class Links implements Service {
  readonly #components: LinksComponents
  readonly #options: LinkOptions
  readonly #clock: Clock
  readonly #links = new Map<InstanceId, { readonly link: Link; readonly address: string }>()
  /** of peers that are no members any more, while calls to them run */
  readonly #retired = new Set<Link>()
  readonly #listeners = new KeyedListeners<AgentId>()
  /** in the order of the ring, by method, until a row changes */
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

  /**
   * Calls `listener` when a peer may hold the agent, or be reached, that did not; until the function is called.
   */
  onChange(agentId: AgentId, listener: () => void): () => void {
    return this.#listeners.add(agentId, listener)
  }

  /** Calls `listener` with each peer that can be called from now on, or can be again. */
  onReached(listener: (instance: InstanceId) => void): void {
    this.#onReached.add(listener)
  }

  /** Calls `listener` after a peer came or went, or its link is another one or reaches it otherwise than before. */
  onPeers(listener: () => void): void {
    this.#onPeers.add(listener)
  }

  /** The link to a peer, whatever it holds. */
  link(instance: InstanceId): Link | undefined {
    return this.#links.get(instance)?.link
  }

  /** Of each link. */
  reaches(): Reach[] {
    return Array.from(this.#links.values(), ({ link }) => link.reach)
  }

  /** Another replica holds a connection of the agent that it does not leave. */
  holds(agentId: AgentId): boolean {
    const { membership } = this.#components
    return membership.holders(agentId).some(({ methods }) => methods.size > 0)
  }

  /** As `holds`, of one that serves the method. */
  serves(agentId: AgentId, method: string): boolean {
    return this.#components.membership.holders(agentId).some(({ methods }) => methods.has(method))
  }

  /**
   * Peers that serve the method for the agent, best first: reachable ones, then those that stay, then those with the
   * fewest calls of ours, then in the order of the ring.
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
    if (candidates.length > 0) this.#keep(agentId, method, candidates) // else any word may come in a call
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

  /** A peer that gossip has lost may well be there: the calls that it runs may end. */
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

  /** A link is another one, or reaches its peer again: that may concern every agent. */
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

  /** Those that join or leave may well be out of reach. */
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

/** How many links to peers there are, by whether calls can be handed over on them; asked at each scrape. */
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
