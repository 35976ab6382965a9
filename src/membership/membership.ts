import type { AgentId } from '../call/call.ts'
import { Listeners } from '../lib/listeners.ts'
import type { Service } from '../lib/service.ts'
import { Ring } from '../ring/ring.ts'
import { ListedAddresses } from './discovery/listed-addresses.ts'
import { firstHead, type MembershipComponents, type MembershipOptions } from './membership-options.ts'
import { MembershipWarnings } from './membership-warnings.ts'
import { createMembershipMetrics } from './metrics.ts'
import { Gossip, type GossipNetwork } from './network/gossip.ts'
import { isOwnAddress } from './network/gossip-address.ts'
import { GossipRules } from './protocol/gossip-rules.ts'
import { Join } from './protocol/join.ts'
import type { MembershipMetrics } from './protocol/observer.ts'
import { Reconciler, type UnansweredAddress } from './protocol/reconciler.ts'
import { defaultTimers, type MembershipTimers } from './protocol/timers.ts'
import { createRowRegistrations, type Registration, type RowRegistrations } from './row-registrations.ts'
import { AgentShares } from './table/agent-shares.ts'
import { type Holder, type Member, Members } from './table/members.ts'
import { OwnRow } from './table/own-row.ts'
import type { InstanceId, Row, RowConnection } from './table/row.ts'
import { Table, type TableChange } from './table/table.ts'

export { createSources, runsInCluster } from './discovery/create-sources.ts'
export type { DiscoverySource } from './discovery/source.ts'
export type { MembershipComponents, MembershipOptions } from './membership-options.ts'
export type { UnansweredAddress } from './protocol/reconciler.ts'
export type { MembershipTimers } from './protocol/timers.ts'
export type { Registration, RowRegistrations } from './row-registrations.ts'
export type { Holder, Member } from './table/members.ts'
export type { InstanceId, Row, RowConnection, RowHead, RowRegistration, RowState } from './table/row.ts'

/**
 * `members`: a row was added or removed, or its head changed. Others: agents whose connections, or registrations, at
 * peers changed.
 */
export type MembershipChange =
  | { readonly kind: 'members' }
  | { readonly kind: 'connections' | 'registrations'; readonly agentIds: ReadonlySet<AgentId> }

/** The replicas, and the connected agents of each: the interface of gossip for the rest of kas (doc/internals/membership.md). */
export class Membership implements Service {
  readonly instance: InstanceId
  readonly name: string
  readonly registrations: RowRegistrations
  readonly #components: MembershipComponents
  readonly #own: OwnRow
  readonly #shares: AgentShares
  readonly #table = new Table()
  readonly #gossip: GossipNetwork
  readonly #rules: GossipRules
  readonly #reconciler: Reconciler
  readonly #join: Join
  readonly #members: Members
  readonly #warnings: MembershipWarnings
  readonly #listed: ListedAddresses
  readonly #changes: Listeners<MembershipChange>
  readonly #ownPodChanges: Listeners<AgentId>
  readonly #rowsRemoved: Listeners<readonly Registration[]>
  #ring = Ring.of([])

  constructor(components: MembershipComponents, options: MembershipOptions) {
    const { clock, log, sources } = components
    const timers = { ...defaultTimers, ...options.timers }
    const random = () => components.random?.() ?? Math.random()
    const metrics = this.#createMetrics(components)
    const warnings = new MembershipWarnings({ log, metrics, clock })
    const table = this.#table
    this.#components = components
    this.#warnings = warnings
    this.#listed = new ListedAddresses({ sources })
    const gossip = this.#createGossip(metrics, options, timers)
    const own = new OwnRow(gossip.instance, firstHead(options, clock.now()))
    this.#gossip = gossip
    this.#own = own
    this.name = options.name
    this.instance = gossip.instance
    const isConnected = (instance: InstanceId) => gossip.isConnected(instance)
    this.#members = new Members({
      own,
      rows: () => table.rows(),
      row: (instance) => table.row(instance),
      isConnected,
      hostOf: (instance) => gossip.hostOf(instance),
    })
    const changed = (change: TableChange) => this.#changed(change)
    const pullFailed = (owner: InstanceId, error: unknown) => warnings.pullFailed(owner, error)
    const gather = () => this.#shares.gather()
    const listenerFailed = (error: unknown) => warnings.listenerFailed(error)
    this.#changes = new Listeners(listenerFailed)
    this.#ownPodChanges = new Listeners(listenerFailed)
    this.#rowsRemoved = new Listeners(listenerFailed)
    const parts = {
      clock,
      random,
      network: gossip,
      own,
      table,
      metrics,
      gather,
      changed,
      changedFailed: listenerFailed,
      pullFailed,
    }
    this.#rules = new GossipRules(parts, timers)
    this.#shares = new AgentShares({
      clock,
      own,
      due: () => this.#rules.ownChanged(),
      podsChanged: (agentId) => this.#ownPodChanges.notify(agentId),
      publishLimited: (agentId, limit) => warnings.publishLimited(agentId, limit),
    })
    this.registrations = createRowRegistrations({ shares: this.#shares, table, rowRemoved: this.#rowsRemoved })
    this.#reconciler = new Reconciler(
      {
        clock,
        random,
        isConnected,
        dial: (address, signal) => gossip.dial(address, signal),
        isSelf: (address) => isOwnAddress(address, gossip.port),
        whoIsAt: (address) => this.#members.at(address),
        lost: (instance) => this.#rules.lost(instance),
        dialled: (address, result) => {
          warnings.dialled(address, result)
          this.#join.update()
        },
      },
      timers,
    )
    this.#join = new Join(
      {
        clock,
        sources,
        unknownAddresses: () => this.#reconciler.unknown().length,
        missingRows: () => gossip.connected().filter((instance) => !table.row(instance)).length,
        sourcesUnanswered: (names) => warnings.sourcesUnanswered(names),
      },
      timers,
    )
  }

  #createGossip(metrics: MembershipMetrics, options: MembershipOptions, timers: MembershipTimers): GossipNetwork {
    const components = {
      clock: this.#components.clock,
      metrics,
      snapshot: () => this.#own.snapshot(),
      received: (author: InstanceId, message: Uint8Array) => this.#rules.received(author, message),
      connected: (instance: InstanceId) => this.#connected(instance),
      disconnected: (instance: InstanceId) => this.#disconnected(instance),
      subscribed: () => this.#rules.subscribed(),
      isListed: (host: string) => this.#listed.hosts.has(host),
    }
    const { createGossip } = this.#components
    return createGossip ? createGossip(components, options, timers) : new Gossip(components, options, timers)
  }

  #createMetrics({ metrics, sources }: MembershipComponents): MembershipMetrics {
    return createMembershipMetrics(metrics, {
      members: () => this.#table.size + 1,
      rows: () => this.#table.size,
      connections: () => this.#table.rows().reduce((sum, { connections }) => sum + connections.size, 0),
      staleSources: () => sources.filter((source) => source.current().stale).length,
      unansweredSources: () => sources.filter((source) => !source.current().answered).length,
    })
  }

  /**
   * Resolves once this replica has the rows of the members that it reached; its own row says `joining` until
   * `setState`.
   *
   * @throws if it cannot listen on the address for gossip
   */
  async start(): Promise<void> {
    await this.#gossip.start()
    this.#own.setHead({ ...this.#own.head, gossipPort: this.#gossip.port })
    this.#rules.start()
    this.#listed.start(() => this.#discovered())
    this.#reconciler.start()
    this.#join.start()
    for (const source of this.#components.sources) {
      source.start().catch((error: unknown) => this.#warnings.sourceFailed(source.name, error))
    }
    await this.#join.done
  }

  /** Sends a farewell to peers, and closes the connections. */
  async stop(): Promise<void> {
    this.#join.stop()
    this.#listed.stop()
    this.#reconciler.stop()
    this.#rules.stop()
    this.#shares.stop()
    await Promise.all([this.#gossip.stop(), ...this.#components.sources.map((source) => source.stop())])
  }

  /** Port on which it listens for gossip, once started. */
  get port(): number {
    return this.#gossip.port
  }

  /** Reason why this replica should not get calls yet; undefined: it should. */
  readiness(): string | undefined {
    return this.#join.reason()
  }

  // the own row

  /**
   * Adds a connection to the own row. It is published with the next batch if the agent's share has room, else once
   * others of the agent are removed.
   *
   * @returns false: the agent has too many, so it is not kept; it may be offered again
   * @throws KasError INVALID_MESSAGE if it is beyond `bounds`
   */
  addConnection(connection: RowConnection): boolean {
    return this.#shares.put(connection)
  }

  removeConnection(id: string): void {
    this.#shares.remove(id)
  }

  /** Names of the agent's pods that are published from here, or about to be. */
  ownPods(agentId: AgentId): Iterable<string> {
    return this.#shares.pods(agentId)
  }

  /** Sets the state, and publishes it at once. */
  setState(state: 'serving' | 'leaving'): void {
    if (!this.#own.setState(state)) return
    this.#rules.ownChanged({ now: true })
    this.#membersChanged()
  }

  /** Sets the port of the server `replicas`, if it was unknown before. */
  setReplicaPort(port: number): void {
    if (this.#own.setHead({ ...this.#own.head, replicaPort: port })) this.#rules.ownChanged({ now: true })
  }

  /** Publishes the own version at once, for a peer that does not know this instance. */
  announce(): void {
    this.#rules.ownChanged({ now: true })
  }

  /** Fetches the row of a connected instance again. */
  refresh(instance: InstanceId): void {
    this.#rules.refresh(instance)
  }

  // peers

  /** Peers with connections of the agent, in the order of their first connection. */
  holders(agentId: AgentId): readonly Holder[] {
    return this.#table.holders(agentId).map((found) => this.#members.holder(found))
  }

  /** All rows, the own one first. */
  rows(): readonly Row[] {
    return [this.#own, ...this.#table.rows()]
  }

  row(instance: InstanceId): Row | undefined {
    return instance === this.instance ? this.#own : this.#table.row(instance)
  }

  /** Members by name, sorted, including this replica. */
  members(): readonly Member[] {
    return this.#members.list()
  }

  /** Addresses that discovery lists, and where no replica with the secret answers. */
  unanswered(): readonly UnansweredAddress[] {
    return this.#reconciler.unanswered()
  }

  /** Sources of discovery that fail now, by name; their last addresses stay. */
  failingSources(): readonly { readonly name: string; readonly reason: string }[] {
    return this.#components.sources.flatMap((source) => {
      const { error } = source.current()
      return error === undefined ? [] : [{ name: source.name, reason: error }]
    })
  }

  /** Address of the server `replicas` of a row: `10.0.0.7:8155`; undefined: unknown. */
  addressOf(row: Row): string | undefined {
    return this.#members.addressOf(row)
  }

  /** Names of the serving replicas, best first for `key`; the same at all replicas with the same members. */
  rank(key: string): readonly string[] {
    return this.#ring.rank(key)
  }

  /** Calls `listener` after each change, until the returned function is called. */
  onChange(listener: (change: MembershipChange) => void): () => void {
    return this.#changes.add(listener)
  }

  /** Calls `listener` after a possible change of `ownPods`, until the returned function is called. */
  onOwnPods(listener: (agentId: AgentId) => void): () => void {
    return this.#ownPodChanges.add(listener)
  }

  // events

  #connected(instance: InstanceId): void {
    this.#members.connected(instance)
    this.#warnings.reachedFrom(this.#gossip.hostOf(instance), this.#own.head)
    this.#rules.connected(instance)
    this.#membersChanged() // two instances may have the same name, and this one may now count
  }

  #disconnected(instance: InstanceId): void {
    this.#members.removed()
    this.#rules.disconnected(instance)
    this.#reconciler.disconnected(instance)
    this.#join.update()
    this.#membersChanged()
  }

  #changed({ connectionsOf, registrationsOf, members, removed }: TableChange): void {
    if (removed) this.#rowsRemoved.notify([...removed.registrations.values()])
    if (members) {
      this.#members.removed()
      this.#reconciler.connected()
      this.#membersChanged()
    }
    if (connectionsOf.size > 0) this.#changes.notify({ kind: 'connections', agentIds: connectionsOf })
    if (registrationsOf.size > 0) this.#changes.notify({ kind: 'registrations', agentIds: registrationsOf })
    this.#join.update()
  }

  #membersChanged(): void {
    const serving = this.#members.list().filter(({ state }) => state === 'serving')
    const names = serving.map(({ name }) => name)
    if (names.join() !== this.#ring.names.join()) this.#ring = Ring.of(names)
    this.#warnings.twins(this.#members.twins())
    this.#changes.notify({ kind: 'members' })
  }

  #discovered(): void {
    const { all } = this.#listed
    this.#warnings.listed(all)
    this.#reconciler.set(all)
    this.#join.update()
  }
}
