import { networkInterfaces } from 'node:os'
import type { Clock } from '../lib/clock.ts'
import { KasError } from '../lib/errors.ts'
import { formatHostPort, parseHostPort } from '../lib/host-port.ts'
import type { Logger } from '../lib/log.ts'
import type { Registry } from '../lib/metrics.ts'
import type { Service } from '../lib/service.ts'
import type { AgentId } from '../proto/call.ts'
import { Ring } from '../ring/ring.ts'
import type { DiscoverySource } from './discovery/source.ts'
import { Gossip } from './gossip.ts'
import { GossipRules } from './gossip-rules.ts'
import { Join } from './join.ts'
import { byName } from './members.ts'
import { createMembershipMetrics, type MembershipMetrics } from './metrics.ts'
import { OwnRow } from './own-row.ts'
import { type DialResult, Reconciler } from './reconciler.ts'
import type { ConnectionEntry, InstanceId, Row, RowState } from './row.ts'
import { Table, type TableChange } from './table.ts'
import { defaultTimers, type MembershipTimers } from './timers.ts'

export type { ConnectionEntry, InstanceId, Row, RowHead, RowState } from './row.ts'
export type { MembershipTimers } from './timers.ts'

/** Another living instance that has connections of an agent. */
export interface Holder {
  readonly row: Row
  /** of its server `replicas`: `10.0.0.7:8155`; undefined if it is not known */
  readonly address: string | undefined
  /** of the agent, at least one */
  readonly connections: readonly ConnectionEntry[]
}

/** One name, with the instance that counts for it. */
export interface Member {
  readonly name: string
  readonly instance: InstanceId
  readonly state: RowState
  readonly address: string | undefined
  readonly self: boolean
  /** a gossip connection to it is open */
  readonly connected: boolean
  /** living instances that use the name: more than one is a mistake, or a restart */
  readonly instances: number
}

/** Whose holders changed; or `members`: a row came or went, or its head changed. */
export interface MembershipChange {
  readonly agentIds: ReadonlySet<AgentId> | 'members'
}

export interface MembershipComponents {
  readonly log: Logger
  readonly clock: Clock
  /** started and stopped by the membership */
  readonly sources: readonly DiscoverySource[]
  readonly metrics: Registry
  /** 0 to 1; default Math.random */
  random?(): number
}

export interface MembershipOptions {
  /** survives restarts: letters, digits, `.`, `_`, `-` */
  readonly name: string
  readonly secret: Uint8Array
  /** accepted too, while the secret is changed */
  readonly previousSecret?: Uint8Array
  /** for gossip; port 0: any */
  readonly listen: { readonly host?: string; readonly port: number }
  /** where others reach the server `replicas`; without a host, where they see this replica */
  readonly replica: { readonly host?: string; readonly port: number }
  /** SHA-256 of the certificate's public key (SubjectPublicKeyInfo, DER), hex */
  readonly publicKeyHash: string
  readonly agentAddress?: string
  readonly kasVersion: string
  /** default `defaultTimers` */
  readonly timers?: Partial<MembershipTimers>
}

/** Who the replicas are and which agents each holds: all that the rest of kas knows of it. Design 6. */
export class Membership implements Service {
  readonly instance: InstanceId
  readonly name: string
  readonly #components: MembershipComponents
  readonly #own: OwnRow
  readonly #table = new Table()
  readonly #gossip: Gossip
  readonly #rules: GossipRules
  readonly #reconciler: Reconciler
  readonly #join: Join
  readonly #listeners = new Set<(change: MembershipChange) => void>()
  /** of each instance with a row, or a connection: in which order it connected, and from where */
  readonly #seen = new Map<InstanceId, { order: number; host: string | undefined }>()
  readonly #warnedNames = new Set<string>()
  readonly #warnedAddresses = new Set<string>()
  #listedHosts: ReadonlySet<string> = new Set()
  #connects = 0
  #ring = Ring.of([])
  #unsubscribe: (() => void)[] = []

  constructor(components: MembershipComponents, options: MembershipOptions) {
    const { clock } = components
    const timers = { ...defaultTimers, ...options.timers }
    const random = () => components.random?.() ?? Math.random()
    this.#components = components
    this.name = options.name
    const metrics = this.#createMetrics(components.metrics)
    this.#gossip = new Gossip(
      {
        clock,
        metrics,
        snapshot: () => this.#own.snapshot(),
        received: (author, news) => this.#rules.received(author, news),
        connected: (instance) => this.#connected(instance),
        disconnected: (instance) => this.#disconnected(instance),
        subscribed: () => this.#rules.subscribed(),
        isListed: (host) => this.#listedHosts.has(host),
      },
      options,
      timers,
    )
    this.instance = this.#gossip.instance
    this.#own = new OwnRow(this.instance, {
      name: options.name,
      state: 'joining',
      replicaPort: options.replica.port,
      publicKeyHash: options.publicKeyHash,
      kasVersion: options.kasVersion,
      startedAt: clock.now(),
      gossipPort: options.listen.port,
      ...(options.replica.host !== undefined && { replicaHost: options.replica.host }),
      ...(options.agentAddress !== undefined && { agentAddress: options.agentAddress }),
    })
    this.#rules = new GossipRules(
      {
        clock,
        random,
        network: this.#gossip,
        own: this.#own,
        table: this.#table,
        metrics,
        changed: (change) => this.#changed(change),
        pullFailed: (owner, error) => this.#pullFailed(owner, error, metrics),
      },
      timers,
    )
    this.#reconciler = new Reconciler(
      {
        clock,
        random,
        dial: (address, signal) => this.#gossip.dial(address, signal),
        isSelf: (address) => this.#isSelf(address),
        isConnected: (instance) => this.#gossip.isConnected(instance),
        whoIsAt: (address) => this.#whoIsAt(address),
        lost: (instance) => this.#rules.lost(instance),
        dialled: (address, result) => this.#dialled(address, result),
      },
      timers,
    )
    this.#join = new Join(
      {
        clock,
        sources: components.sources,
        unknownAddresses: () => this.#reconciler.unknown().length,
        missingRows: () => this.#gossip.connected().filter((instance) => !this.#table.row(instance)).length,
        sourcesSilent: (sources) =>
          components.log.warn({ sources }, 'Discovery has not answered: serving with the replicas that are known'),
      },
      timers,
    )
  }

  /**
   * Resolves once this replica knows what the members that it reached hold; its row says `joining` until `setState`.
   *
   * @throws if the address for gossip cannot be listened on
   */
  async start(): Promise<void> {
    await this.#gossip.start()
    this.#own.setHead({ ...this.#own.head, gossipPort: this.#gossip.port })
    this.#rules.start()
    this.#unsubscribe = this.#components.sources.map((source) => source.onChange(() => this.#discovered()))
    this.#discovered()
    this.#reconciler.start()
    this.#join.start()
    for (const source of this.#components.sources) {
      source.start().catch((error: unknown) => {
        this.#components.log.error({ error, source: source.name }, 'A discovery source cannot be used')
      })
    }
    await this.#join.done
  }

  /** Tells the others that this instance is gone, and ends its connections. */
  async stop(): Promise<void> {
    this.#join.stop()
    for (const undo of this.#unsubscribe) undo()
    this.#unsubscribe = []
    this.#reconciler.stop()
    this.#rules.stop()
    await Promise.all([this.#gossip.stop(), ...this.#components.sources.map((source) => source.stop())])
  }

  /** Where it listens for gossip, once started. */
  get port(): number {
    return this.#gossip.port
  }

  /** Why this replica should not get calls yet. */
  readiness(): string | undefined {
    return this.#join.reason()
  }

  // the own row

  /** @throws KasError INVALID_MESSAGE if the entry is beyond `bounds`: the others do not hear of it then */
  addConnection(entry: ConnectionEntry): void {
    this.#own.add(entry)
    this.#rules.ownChanged()
  }

  removeConnection(id: string): void {
    if (this.#own.remove(id) !== undefined) this.#rules.ownChanged()
  }

  /** The others hear it at once. */
  setState(state: 'serving' | 'leaving'): void {
    if (!this.#own.setState(state)) return
    this.#rules.ownChanged({ now: true })
    this.#membersChanged()
  }

  /** Where the server `replicas` listens, if it was not known before. */
  setReplicaPort(port: number): void {
    if (this.#own.setHead({ ...this.#own.head, replicaPort: port })) this.#rules.ownChanged({ now: true })
  }

  /** Tells the own version to all now: for one that says that it does not know this instance. */
  announce(): void {
    this.#rules.ownChanged({ now: true })
  }

  /** Fetches the row of a connected instance anew. */
  refresh(instance: InstanceId): void {
    this.#rules.refresh(instance)
  }

  // what is known of the others

  holders(agentId: AgentId): readonly Holder[] {
    return this.#table
      .holders(agentId)
      .map(({ row, connections }) => ({ row, connections, address: this.addressOf(row) }))
  }

  /** The own row first. */
  rows(): readonly Row[] {
    return [this.#own, ...this.#table.rows()]
  }

  row(instance: InstanceId): Row | undefined {
    return instance === this.instance ? this.#own : this.#table.row(instance)
  }

  /** By name, sorted; this replica is one of them. */
  members(): readonly Member[] {
    return Array.from(this.#byName().values(), ({ row, instances }) => ({
      name: row.head.name,
      instance: row.instance,
      state: row.head.state,
      address: this.addressOf(row),
      self: row === this.#own,
      connected: row === this.#own || this.#gossip.isConnected(row.instance),
      instances,
    }))
  }

  /** Names of the serving replicas, best first for `key`; the same at each that knows the same members. */
  rank(key: string): readonly string[] {
    return this.#ring.rank(key)
  }

  /** Calls `listener` after each change, until the returned function is called. */
  onChange(listener: (change: MembershipChange) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  // what happens

  #connected(instance: InstanceId): void {
    this.#seen.set(instance, { order: ++this.#connects, host: this.#gossip.hostOf(instance) })
    this.#rules.connected(instance)
    this.#membersChanged() // of two instances of a name, it may count now
  }

  #disconnected(instance: InstanceId): void {
    if (!this.#table.row(instance)) this.#seen.delete(instance)
    this.#rules.disconnected(instance)
    this.#reconciler.disconnected(instance)
    this.#join.update()
    this.#membersChanged()
  }

  #changed({ agentIds, members }: TableChange): void {
    if (members) {
      for (const instance of this.#seen.keys()) {
        if (!this.#table.row(instance) && !this.#gossip.isConnected(instance)) this.#seen.delete(instance)
      }
      this.#reconciler.connected()
      this.#membersChanged()
    }
    if (agentIds.size > 0) this.#emit({ agentIds })
    this.#join.update()
  }

  #membersChanged(): void {
    const names = this.#byName()
    const serving = [...names.values()]
      .filter(({ row }) => row.head.state === 'serving')
      .map(({ row }) => row.head.name)
    if (serving.join() !== this.#ring.names.join()) this.#ring = Ring.of(serving)
    this.#warnOfTwins()
    this.#emit({ agentIds: 'members' })
  }

  #emit(change: MembershipChange): void {
    for (const listener of [...this.#listeners]) listener(change)
  }

  #discovered(): void {
    const addresses = new Set(this.#components.sources.flatMap((source) => source.current().addresses))
    const hosts = Array.from(addresses, (address) => parseHostPort(address)?.host ?? '')
    this.#listedHosts = new Set(hosts)
    this.#reconciler.set([...addresses].sort())
    this.#join.update()
  }

  #dialled(address: string, result: DialResult): void {
    if (result.kind !== 'failed') this.#warnedAddresses.delete(address)
    else if (!this.#warnedAddresses.has(address)) {
      this.#warnedAddresses.add(address)
      const { error } = result
      this.#components.log.warn(
        { net_address: address, error },
        'No replica with our secret answers at a listed address',
      )
    }
    this.#join.update()
  }

  #pullFailed(instance: InstanceId, error: unknown, metrics: MembershipMetrics): void {
    if (KasError.from(error).code === 'INVALID_MESSAGE') metrics.refused('row')
    this.#components.log.debug({ instance, error }, 'The row of a replica could not be fetched')
  }

  #warnOfTwins(): void {
    const connected = this.rows().filter(
      (row) => row.head.state !== 'leaving' && (row === this.#own || this.#gossip.isConnected(row.instance)),
    )
    for (const [name, { instances }] of byName(connected, () => 0)) {
      if (instances === 1) this.#warnedNames.delete(name)
      else if (!this.#warnedNames.has(name)) {
        this.#warnedNames.add(name)
        this.#components.log.warn({ name, instances }, 'Two living replicas use one name: the newest connection counts')
      }
    }
  }

  // looking up

  #byName() {
    // the own row counts for the own name
    const rankOf = (instance: InstanceId) =>
      instance === this.instance ? Infinity : (this.#seen.get(instance)?.order ?? 0)
    return byName(this.rows(), rankOf)
  }

  /** Where the server `replicas` of a row is; undefined if it is not known. */
  addressOf(row: Row): string | undefined {
    const host = row.head.replicaHost ?? (row === this.#own ? undefined : this.#seen.get(row.instance)?.host)
    return host === undefined ? undefined : formatHostPort({ host, port: row.head.replicaPort })
  }

  #whoIsAt(address: string): InstanceId | undefined {
    const place = parseHostPort(address)
    return this.#gossip.connected().find((instance) => {
      const row = this.#table.row(instance)
      return row?.head.gossipPort === place?.port && this.#seen.get(instance)?.host === place?.host
    })
  }

  #isSelf(address: string): boolean {
    const place = parseHostPort(address)
    if (place?.port !== this.#gossip.port) return false
    return Object.values(networkInterfaces()).some((list) => list?.some((own) => own.address === place.host))
  }

  #createMetrics(register: Registry): MembershipMetrics {
    const { sources } = this.#components
    return createMembershipMetrics(register, {
      members: () => this.#table.size + 1,
      rows: () => this.#table.size,
      connections: () => this.#table.rows().reduce((sum, row) => sum + row.connections.size, 0),
      staleSources: () => sources.filter((source) => source.current().stale).length,
      silentSources: () => sources.filter((source) => !source.current().answered).length,
    })
  }
}
