import { formatHostPort, parseHostPort } from '../../lib/host-port.ts'
import type { InstanceId, Row, RowState } from './row.ts'
import type { AgentConnections } from './table.ts'

/** Another living instance that has connections of an agent. */
export interface Holder extends AgentConnections {
  /** address of its server `replicas`: `10.0.0.7:8155`; undefined: unknown */
  readonly address: string | undefined
}

/** One name, with the instance that counts for it. */
export interface Member {
  readonly name: string
  readonly instance: InstanceId
  readonly state: RowState
  readonly address: string | undefined
  readonly self: boolean
  /** true: a gossip connection to it is open */
  readonly connected: boolean
  /** living instances with this name: more than one is a mistake, or a restart */
  readonly instances: number
}

export interface MembersComponents {
  readonly own: Row
  /** rows of other instances */
  rows(): readonly Row[]
  row(instance: InstanceId): Row | undefined
  isConnected(instance: InstanceId): boolean
  /** host at the remote end of the gossip connection */
  hostOf(instance: InstanceId): string | undefined
}

/** One name, with the row that counts for it, and the number of living instances with this name. */
interface Named {
  readonly row: Row
  readonly instances: number
}

/**
 * Replicas with names and addresses, from rows. Among two instances with one name, the one with the newest connection
 * counts: the other is about to leave, or a mistake. For its own name, each instance counts itself.
 */
export class Members {
  readonly #components: MembersComponents
  /** by instance with a connection, or still with a row: the order of its connection, and its host */
  readonly #seen = new Map<InstanceId, { order: number; host: string | undefined }>()
  #connections = 0

  constructor(components: MembersComponents) {
    this.#components = components
  }

  connected(instance: InstanceId): void {
    this.#seen.set(instance, { order: ++this.#connections, host: this.#components.hostOf(instance) })
  }

  /** Cleans up after a row or a connection was removed. */
  removed(): void {
    const { row, isConnected } = this.#components
    for (const instance of this.#seen.keys()) if (!row(instance) && !isConnected(instance)) this.#seen.delete(instance)
  }

  /** Members by name, sorted. */
  list(): readonly Member[] {
    return this.#byName([this.#components.own, ...this.#components.rows()]).map(({ row, instances }) => ({
      name: row.head.name,
      instance: row.instance,
      state: row.head.state,
      address: this.addressOf(row),
      self: row === this.#components.own,
      connected: this.#isHere(row),
      instances,
    }))
  }

  /** Names that more than one connected instance uses, without instances that leave. */
  twins(): readonly { readonly name: string; readonly instances: number }[] {
    const { own, rows } = this.#components
    const here = [own, ...rows()].filter((row) => row.head.state !== 'leaving' && this.#isHere(row))
    const named = this.#byName(here).filter(({ instances }) => instances > 1)
    return named.map(({ row, instances }) => ({ name: row.head.name, instances }))
  }

  holder({ row, connections, methods }: AgentConnections): Holder {
    return { row, connections, methods, address: this.addressOf(row) }
  }

  /** Returns the connected instance whose row has the port of `address`, and whose connection comes from its host. */
  at(address: string): InstanceId | undefined {
    const place = parseHostPort(address)
    for (const [instance, { host }] of this.#seen) {
      const port = this.#components.row(instance)?.head.gossipPort
      if (port === place?.port && host === place?.host && this.#components.isConnected(instance)) return instance
    }
    return undefined
  }

  #isHere(row: Row): boolean {
    return row === this.#components.own || this.#components.isConnected(row.instance)
  }

  #byName(rows: readonly Row[]): readonly Named[] {
    const names = new Map<string, Named>()
    for (const row of rows) {
      const other = names.get(row.head.name)
      const counts = other && this.#orderOf(other.row) >= this.#orderOf(row) ? other.row : row
      names.set(row.head.name, { row: counts, instances: (other?.instances ?? 0) + 1 })
    }
    return [...names.values()].sort((a, b) => (a.row.head.name < b.row.head.name ? -1 : 1))
  }

  #orderOf(row: Row): number {
    return row === this.#components.own ? Number.POSITIVE_INFINITY : (this.#seen.get(row.instance)?.order ?? 0)
  }

  /** Address of the server `replicas` of a row: `10.0.0.7:8155`; undefined: unknown. */
  addressOf(row: Row): string | undefined {
    const host = row.head.replicaHost ?? this.#seen.get(row.instance)?.host
    return host === undefined ? undefined : formatHostPort({ host, port: row.head.replicaPort })
  }
}
