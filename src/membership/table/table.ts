import { isDeepStrictEqual } from 'node:util'
import type { AgentId } from '../../call/call.ts'
import { ItemMap } from './item-map.ts'
import {
  bounds,
  byKind,
  type InstanceId,
  isConnection,
  outOfBounds,
  type Row,
  type RowConnection,
  type RowDelta,
  type RowHead,
  type RowItem,
  type RowItems,
  type RowRegistration,
  type RowSnapshot,
} from './row.ts'

/** Effects of one step. */
export interface TableChange {
  /** agents with other connections */
  readonly connectionsOf: ReadonlySet<AgentId>
  /** agents with other registrations */
  readonly registrationsOf: ReadonlySet<AgentId>
  /** a row was added or removed, or its head changed */
  readonly members: boolean
  /** the removed row, in its last state */
  readonly removed?: Row
}

/**
 * Result of a change: `old`: known already. `gap`: a change in between is missing. `unknown`: there is no row of this
 * instance. These three change nothing.
 */
export type Applied = TableChange | 'old' | 'gap' | 'unknown'

/** Connections of one agent at one replica. Each call that waits for the agent reads them after each change. */
export interface AgentConnections {
  readonly row: Row
  /** at least one */
  readonly connections: readonly RowConnection[]
  /** methods of all its connections */
  readonly methods: ReadonlySet<string>
}

/** A registration, and the instance whose row has it. */
export interface PeerRegistration {
  readonly instance: InstanceId
  readonly registration: RowRegistration
}

class IndexedConnections implements AgentConnections {
  readonly row: Row
  readonly #byId = new Map<string, RowConnection>()
  #connections: readonly RowConnection[] | undefined
  #methods: ReadonlySet<string> | undefined

  constructor(row: Row) {
    this.row = row
  }

  get size(): number {
    return this.#byId.size
  }

  get connections(): readonly RowConnection[] {
    this.#connections ??= [...this.#byId.values()]
    return this.#connections
  }

  get methods(): ReadonlySet<string> {
    this.#methods ??= new Set(this.connections.flatMap(({ methods }) => methods))
    return this.#methods
  }

  set(connection: RowConnection): void {
    this.#byId.set(connection.id, connection)
    this.#changed()
  }

  delete(id: string): void {
    this.#byId.delete(id)
    this.#changed()
  }

  #changed(): void {
    this.#connections = undefined
    this.#methods = undefined
  }
}

/** One row, indexed by agent. */
class TableRow implements Row {
  readonly instance: InstanceId
  version: number
  head: RowHead
  readonly #items = new ItemMap()
  readonly connectionsByAgent = new Map<AgentId, IndexedConnections>()
  readonly registrationsByAgent = new Map<AgentId, Map<string, RowRegistration>>()

  constructor({ instance, version, head, connections, registrations }: RowSnapshot) {
    this.instance = instance
    this.version = version
    this.head = head
    for (const connection of connections) this.add(connection)
    for (const registration of registrations) this.add(registration)
  }

  get connections(): ReadonlyMap<string, RowConnection> {
    return this.#items.connections
  }

  get registrations(): ReadonlyMap<string, RowRegistration> {
    return this.#items.registrations
  }

  item(id: string): RowItem | undefined {
    return this.#items.get(id)
  }

  add(item: RowItem): void {
    this.remove(item.id)
    this.#items.set(item)
    const { id, agentId } = item
    if (isConnection(item)) getOrCreate(this.connectionsByAgent, agentId, () => new IndexedConnections(this)).set(item)
    else getOrCreate(this.registrationsByAgent, agentId, () => new Map<string, RowRegistration>()).set(id, item)
  }

  remove(id: string): void {
    const item = this.#items.delete(id)
    if (!item) return
    const byAgent = isConnection(item) ? this.connectionsByAgent : this.registrationsByAgent
    const ofAgent = byAgent.get(item.agentId)
    ofAgent?.delete(id)
    if (ofAgent?.size === 0) byAgent.delete(item.agentId)
  }

  /** @throws KasError INVALID_MESSAGE */
  checkBounds(agentIds: Iterable<AgentId>): void {
    if (this.#items.bytes > bounds.peerRowBytes) throw outOfBounds('the size of a row')
    for (const agentId of agentIds) {
      if (this.#items.countOf(agentId) > bounds.itemsOfAgent) throw outOfBounds('the number of connections of an agent')
    }
  }
}

/**
 * Rows of the other instances, without a clock or I/O. The content of a row is its owner's; merging is idempotent and
 * commutative over (instance, version). The caller makes sure that a row comes from its owner.
 */
export class Table {
  readonly #rows = new Map<InstanceId, TableRow>()
  readonly #holders = new Map<AgentId, Map<InstanceId, TableRow>>()

  get size(): number {
    return this.#rows.size
  }

  rows(): readonly Row[] {
    return [...this.#rows.values()]
  }

  row(instance: InstanceId): Row | undefined {
    return this.#rows.get(instance)
  }

  /** Replicas with connections of the agent, in the order of their first connection. */
  holders(agentId: AgentId): readonly AgentConnections[] {
    const all: AgentConnections[] = []
    for (const row of this.#holders.get(agentId)?.values() ?? []) {
      const connections = row.connectionsByAgent.get(agentId)
      if (connections) all.push(connections)
    }
    return all
  }

  registrations(agentId: AgentId): readonly PeerRegistration[] {
    return Array.from(this.#rows.values()).flatMap(({ instance, registrationsByAgent }) =>
      Array.from(registrationsByAgent.get(agentId)?.values() ?? [], (registration) => ({ instance, registration })),
    )
  }

  /**
   * Puts a whole row, in place of an older one.
   *
   * @throws KasError INVALID_MESSAGE if it is out of bounds; then nothing has changed
   */
  put(snapshot: RowSnapshot): TableChange | 'old' {
    const before = this.#rows.get(snapshot.instance)
    if (before && before.version >= snapshot.version) return 'old'
    if (!before && this.#rows.size >= bounds.instances) throw outOfBounds('the number of replicas')
    const row = new TableRow(snapshot)
    row.checkBounds([...row.connectionsByAgent.keys(), ...row.registrationsByAgent.keys()])
    this.#rows.set(row.instance, row)
    this.#index(row, new Set([...(before?.connectionsByAgent.keys() ?? []), ...row.connectionsByAgent.keys()]))
    return {
      connectionsOf: differing(before?.connections, row.connections),
      registrationsOf: differing(before?.registrations, row.registrations),
      members: !isDeepStrictEqual(before?.head, row.head),
    }
  }

  /**
   * Applies a change to a row.
   *
   * @throws KasError INVALID_MESSAGE if the row would be out of bounds; then nothing has changed
   */
  apply(instance: InstanceId, delta: RowDelta): Applied {
    const row = this.#rows.get(instance)
    if (!row) return 'unknown'
    if (delta.to <= row.version) return 'old'
    if (delta.from > row.version) return 'gap'
    const { connections, registrations } = change(row, delta)
    const connectionsOf = agentsOf(connections)
    this.#index(row, connectionsOf)
    const members = delta.head !== undefined && !isDeepStrictEqual(row.head, delta.head)
    if (delta.head) row.head = delta.head
    row.version = delta.to
    return { connectionsOf, registrationsOf: agentsOf(registrations), members }
  }

  remove(instance: InstanceId): TableChange | 'unknown' {
    const row = this.#rows.get(instance)
    if (!row) return 'unknown'
    this.#rows.delete(instance)
    const connectionsOf = new Set(row.connectionsByAgent.keys())
    for (const agentId of connectionsOf) this.#unlist(instance, agentId)
    return { connectionsOf, registrationsOf: new Set(row.registrationsByAgent.keys()), members: true, removed: row }
  }

  #index(row: TableRow, agentIds: Iterable<AgentId>): void {
    for (const agentId of agentIds) {
      if (row.connectionsByAgent.has(agentId))
        getOrCreate(this.#holders, agentId, () => new Map()).set(row.instance, row)
      else this.#unlist(row.instance, agentId)
    }
  }

  #unlist(instance: InstanceId, agentId: AgentId): void {
    const holders = this.#holders.get(agentId)
    holders?.delete(instance)
    if (holders?.size === 0) this.#holders.delete(agentId)
  }
}

/**
 * Changes the items of a row.
 *
 * @returns the added and the removed items
 * @throws KasError INVALID_MESSAGE if the row would be out of bounds; then it is unchanged
 */
function change(row: TableRow, { removed, connections, registrations }: RowDelta): RowItems {
  const added: readonly RowItem[] = [...connections, ...registrations]
  const before = new Map([...removed, ...added.map(({ id }) => id)].map((id) => [id, row.item(id)]))
  for (const id of removed) row.remove(id)
  for (const item of added) row.add(item)
  const changed = [...added, ...before.values()].filter((item) => item !== undefined)
  try {
    row.checkBounds(agentsOf(changed))
  } catch (error) {
    for (const [id, item] of before) {
      row.remove(id)
      if (item) row.add(item)
    }
    throw error
  }
  return byKind(changed)
}

/** Agents whose items differ. */
function differing<Item extends RowItem>(
  before: ReadonlyMap<string, Item> = new Map(),
  after: ReadonlyMap<string, Item>,
): ReadonlySet<AgentId> {
  const agentIds = new Set<AgentId>()
  for (const [id, item] of before) if (!isDeepStrictEqual(item, after.get(id))) agentIds.add(item.agentId)
  for (const [id, { agentId }] of after) if (before.get(id)?.agentId !== agentId) agentIds.add(agentId)
  return agentIds
}

function agentsOf(items: readonly RowItem[]): ReadonlySet<AgentId> {
  return new Set(items.map(({ agentId }) => agentId))
}

/** Returns the value of `key`, created if there is none yet. */
function getOrCreate<Key, Value>(map: Map<Key, Value>, key: Key, create: () => Value): Value {
  const value = map.get(key) ?? create()
  map.set(key, value)
  return value
}
