import type { Clock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import type { OwnRow } from '../table/own-row.ts'
import type { InstanceId, RowDelta, RowSnapshot } from '../table/row.ts'
import { decodeGossip, type GossipMessage } from '../table/row-codec.ts'
import type { Applied, Table, TableChange } from '../table/table.ts'
import { Announcer, maxMessageBytes } from './announcer.ts'
import { AntiEntropy } from './anti-entropy.ts'
import { Attendance } from './attendance.ts'
import type { MembershipMetrics } from './observer.ts'
import type { MembershipTimers } from './timers.ts'

/** Bound of instances that sent a farewell, whose late messages are ignored. The oldest is forgotten first. */
const maxFarewells = 1000

/** Carrier of gossip and rows: libp2p, or a simulation. It calls the rules when peers connect and disconnect. */
export interface Network {
  /** sends to all other connected peers, without a promise of delivery; never throws */
  publish(message: Uint8Array): void
  /** asks the owner itself for its row; rejects if it is not connected */
  pull(owner: InstanceId, signal: AbortSignal): Promise<RowSnapshot>
  /** ends the connections of an instance; after a flood it is refused for a while */
  cut(instance: InstanceId, reason: 'dead' | 'flood'): void
}

export interface GossipRulesComponents {
  readonly clock: Clock
  /** 0 to 1 */
  random(): number
  readonly network: Network
  readonly own: OwnRow
  readonly table: Table
  readonly metrics: MembershipMetrics
  /** adds data to the own row that is to be published with it; absent: there is none */
  gather?(): void
  changed(change: TableChange): void
  /** called if `changed` threw: a fault of this program, and not of a peer */
  changedFailed(error: unknown): void
  /** called if a pull failed; it is repeated */
  pullFailed(owner: InstanceId, error: unknown): void
}

/**
 * Rules of doc/internals/membership.md, without sockets and without a clock of their own: when replicas send, and what they
 * conclude. A published message is never the only copy. The next version shows what is missing, and it is fetched from
 * its owner.
 */
export class GossipRules {
  readonly #components: GossipRulesComponents
  readonly #timers: MembershipTimers
  readonly #announcer: Announcer
  readonly #antiEntropy: AntiEntropy
  readonly #attendance: Attendance
  readonly #forgetting = new Map<InstanceId, () => void>()
  readonly #farewells = new Set<InstanceId>()

  constructor(components: GossipRulesComponents, timers: MembershipTimers) {
    const { clock, network, own, metrics } = components
    this.#components = components
    this.#timers = timers
    const publish = (message: Uint8Array) => network.publish(message)
    this.#announcer = new Announcer({ clock, own, metrics, gather: () => components.gather?.(), publish }, timers)
    this.#antiEntropy = new AntiEntropy(
      {
        clock,
        random: () => components.random(),
        pull: (owner, signal) => network.pull(owner, signal),
        pulled: (row, pending) => this.#pulled(row, pending),
        failed: (owner, error) => {
          metrics.pulled('failed')
          components.pullFailed(owner, error)
        },
      },
      timers,
    )
    this.#attendance = new Attendance(
      {
        clock,
        suspect: (instance) => this.#antiEntropy.need(instance),
        dead: (instance) => network.cut(instance, 'dead'),
      },
      timers,
    )
  }

  start(): void {
    this.#announcer.start()
    this.#attendance.start()
  }

  /** Sends a farewell; rows of others stay as they are. */
  stop(): void {
    this.#announcer.stop()
    this.#antiEntropy.stop()
    this.#attendance.stop()
    for (const cancel of this.#forgetting.values()) cancel()
    this.#forgetting.clear()
  }

  // actions of this instance

  /** Publishes a change of the own row. `now`: at once, and not with the next batch. */
  ownChanged(options: { now: boolean } = { now: false }): void {
    if (options.now) this.#announcer.now()
    else this.#announcer.soon()
  }

  /** Fetches the row of a connected instance, whatever its version. */
  refresh(instance: InstanceId): void {
    if (this.#attendance.has(instance)) this.#antiEntropy.need(instance)
  }

  // events of the network

  connected(instance: InstanceId): void {
    this.#forgetting.get(instance)?.()
    this.#forgetting.delete(instance)
    this.#attendance.connected(instance)
    if (!this.#farewells.has(instance)) this.#antiEntropy.need(instance)
  }

  /** Its last connection has ended. */
  disconnected(instance: InstanceId): void {
    if (!this.#attendance.disconnected(instance)) return
    this.#antiEntropy.drop(instance)
    if (!this.#components.table.row(instance)) return
    this.#forgetting.get(instance)?.()
    const cancel = this.#components.clock.after(this.#timers.forgetMs, () => this.#forget(instance))
    this.#forgetting.set(instance, cancel)
  }

  /** Discovery does not list its address any more, or another instance or none answers there. */
  lost(instance: InstanceId): void {
    if (!this.#attendance.has(instance)) this.#forget(instance)
  }

  /** A peer receives published messages from now on; the version shows it what it has missed. */
  subscribed(): void {
    this.#announcer.versionSoon()
  }

  /**
   * Takes a message that `author` has signed.
   *
   * @returns true: this instance passes it on to others
   */
  received(author: InstanceId, bytes: Uint8Array): boolean {
    const { metrics, own, network } = this.#components
    if (author === own.instance) return false
    const amount = this.#attendance.count(author)
    if (amount !== 'fine') {
      metrics.refused('rate')
      if (amount === 'flood') network.cut(author, 'flood')
      return false
    }
    if (bytes.length > maxMessageBytes) {
      metrics.refused('oversized')
      return false
    }
    const decoded = decode(bytes)
    if (!decoded) {
      metrics.refused('malformed')
      return false
    }
    const { instance, message } = decoded
    if (instance !== author) {
      metrics.refused('author')
      return false
    }
    metrics.received(message?.kind ?? 'unknown')
    this.#attendance.received(author)
    if (!message || this.#farewells.has(author)) return true
    return this.#take(author, message, bytes.length)
  }

  /** @returns false: it is out of bounds */
  #take(author: InstanceId, message: GossipMessage, bytes: number): boolean {
    const { table } = this.#components
    if (message.kind === 'delta') return this.#takeDelta(author, message.delta, bytes)
    if (message.kind === 'farewell') {
      const [oldest] = this.#farewells
      if (oldest !== undefined && this.#farewells.size >= maxFarewells) this.#farewells.delete(oldest)
      this.#farewells.add(author)
      this.#antiEntropy.drop(author)
      this.#forget(author)
    } else {
      const known = table.row(author)?.version
      if (known === undefined || known < message.version) this.#need(author, message.version)
    }
    return true
  }

  #takeDelta(author: InstanceId, delta: RowDelta, bytes: number): boolean {
    const applied = this.#apply(author, delta)
    if (applied === 'gap' || applied === 'unknown') {
      this.#need(author, delta.to)
      this.#antiEntropy.keep(author, delta, bytes)
    } else if (typeof applied === 'object') {
      this.#antiEntropy.advanced(author, delta.to, (pending) => {
        this.#apply(author, pending)
        return this.#components.table.row(author)?.version ?? 0
      })
    }
    return applied !== 'refused'
  }

  #apply(author: InstanceId, delta: RowDelta): Applied | 'refused' {
    const { table, metrics } = this.#components
    let applied: Applied
    try {
      applied = table.apply(author, delta)
    } catch (error) {
      if (KasError.from(error).code !== 'INVALID_MESSAGE') throw error
      metrics.refused('malformed')
      return 'refused'
    }
    this.#notify(applied)
    return applied
  }

  #need(owner: InstanceId, version: number): void {
    if (this.#attendance.has(owner)) this.#antiEntropy.need(owner, version)
  }

  /** @returns true: deltas are still missing */
  #pulled(row: RowSnapshot, pending: readonly RowDelta[]): boolean {
    const { table, metrics } = this.#components
    this.#attendance.received(row.instance)
    this.#notify(table.put(row))
    metrics.pulled('ok')
    let missing = false
    for (const delta of pending) if (this.#apply(row.instance, delta) === 'gap') missing = true
    return missing
  }

  #forget(instance: InstanceId): void {
    this.#forgetting.get(instance)?.()
    this.#forgetting.delete(instance)
    this.#notify(this.#components.table.remove(instance))
  }

  #notify(applied: Applied): void {
    if (typeof applied === 'string') return
    try {
      this.#components.changed(applied)
    } catch (error) {
      this.#components.changedFailed(error)
    }
  }
}

/** @returns undefined: the bytes are malformed or out of bounds */
function decode(bytes: Uint8Array): ReturnType<typeof decodeGossip> | undefined {
  try {
    return decodeGossip(bytes)
  } catch {
    return undefined
  }
}
