import { isDeepStrictEqual } from 'node:util'
import type { AgentId } from '../../call/call.ts'
import {
  bounds,
  type ConnectionEntry,
  entryBytes,
  type InstanceId,
  outOfBounds,
  type Row,
  type RowDelta,
  type RowHead,
  type RowSnapshot,
} from './row.ts'

/** What a step changed. */
export interface TableChange {
  readonly agentIds: ReadonlySet<AgentId>
  /** a row came or went, or its head changed */
  readonly members: boolean
}

/**
 * `old`: known already. `gap`: something between is missing. `unknown`: there is no row of this instance.
 * None of the three changes anything.
 */
export type Applied = TableChange | 'old' | 'gap' | 'unknown'

/** Connections of one agent at one replica. Each call that waits for the agent asks for them after each change. */
export interface Held {
  readonly row: Row
  readonly connections: readonly ConnectionEntry[]
  /** of all its connections */
  readonly methods: ReadonlySet<string>
}

class AgentEntries implements Held {
  readonly row: Row
  readonly byId = new Map<string, ConnectionEntry>()
  #connections: readonly ConnectionEntry[] | undefined
  #methods: ReadonlySet<string> | undefined

  constructor(row: Row) {
    this.row = row
  }

  get connections(): readonly ConnectionEntry[] {
    this.#connections ??= [...this.byId.values()]
    return this.#connections
  }

  get methods(): ReadonlySet<string> {
    this.#methods ??= new Set(this.connections.flatMap(({ methods }) => methods))
    return this.#methods
  }

  set(entry: ConnectionEntry): void {
    this.byId.set(entry.id, entry)
    this.#changed()
  }

  delete(id: string): void {
    this.byId.delete(id)
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
  readonly connections = new Map<string, ConnectionEntry>()
  readonly byAgent = new Map<AgentId, AgentEntries>()
  #bytes = 0

  constructor({ instance, version, head, connections }: RowSnapshot) {
    this.instance = instance
    this.version = version
    this.head = head
    for (const entry of connections) this.add(entry)
  }

  add(entry: ConnectionEntry): void {
    this.remove(entry.id)
    this.connections.set(entry.id, entry)
    this.#bytes += entryBytes(entry)
    const ofAgent = this.byAgent.get(entry.agentId) ?? new AgentEntries(this)
    ofAgent.set(entry)
    this.byAgent.set(entry.agentId, ofAgent)
  }

  remove(id: string): void {
    const entry = this.connections.get(id)
    if (!entry) return
    this.connections.delete(id)
    this.#bytes -= entryBytes(entry)
    const ofAgent = this.byAgent.get(entry.agentId)
    ofAgent?.delete(id)
    if (ofAgent?.byId.size === 0) this.byAgent.delete(entry.agentId)
  }

  /** @throws KasError INVALID_MESSAGE */
  checkBounds(agentIds: Iterable<AgentId>): void {
    if (this.#bytes > bounds.heardRowBytes) throw outOfBounds('the size of a row')
    for (const agentId of agentIds) {
      const count = this.byAgent.get(agentId)?.byId.size ?? 0
      if (count > bounds.connectionsOfAgent) throw outOfBounds('the number of connections of an agent')
    }
  }
}

/**
 * The rows of the other instances: pure, without a clock. Each row is its owner's word; merging is idempotent and
 * commutative over (instance, version). That a row comes from its owner is for the caller to see to.
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

  /** Who has connections of the agent, in the order in which they came. */
  holders(agentId: AgentId): readonly Held[] {
    return Array.from(this.#holders.get(agentId)?.values() ?? []).flatMap((row) => row.byAgent.get(agentId) ?? [])
  }

  /**
   * A whole row: replaces an older one.
   *
   * @throws KasError INVALID_MESSAGE if it is out of bounds; nothing has changed then
   */
  put(snapshot: RowSnapshot): TableChange | 'old' {
    const before = this.#rows.get(snapshot.instance)
    if (before && before.version >= snapshot.version) return 'old'
    if (!before && this.#rows.size >= bounds.instances) throw outOfBounds('the number of replicas')
    const row = new TableRow(snapshot)
    row.checkBounds(row.byAgent.keys())
    this.#rows.set(row.instance, row)
    const agentIds = before ? differing(before, row) : new Set(row.byAgent.keys())
    this.#index(row, new Set([...(before?.byAgent.keys() ?? []), ...row.byAgent.keys()]))
    return { agentIds, members: !before || !isDeepStrictEqual(before.head, row.head) }
  }

  /**
   * A change of a row.
   *
   * @throws KasError INVALID_MESSAGE if the row would be out of bounds; nothing has changed then
   */
  apply(instance: InstanceId, delta: RowDelta): Applied {
    const row = this.#rows.get(instance)
    if (!row) return 'unknown'
    if (delta.to <= row.version) return 'old'
    if (delta.from > row.version) return 'gap'
    const agentIds = change(row, delta)
    this.#index(row, agentIds)
    const members = delta.head !== undefined && !isDeepStrictEqual(row.head, delta.head)
    if (delta.head) row.head = delta.head
    row.version = delta.to
    return { agentIds, members }
  }

  remove(instance: InstanceId): TableChange | 'unknown' {
    const row = this.#rows.get(instance)
    if (!row) return 'unknown'
    this.#rows.delete(instance)
    const agentIds = new Set(row.byAgent.keys())
    for (const agentId of agentIds) this.#unlist(instance, agentId)
    return { agentIds, members: true }
  }

  #index(row: TableRow, agentIds: Iterable<AgentId>): void {
    for (const agentId of agentIds) {
      if (!row.byAgent.has(agentId)) {
        this.#unlist(row.instance, agentId)
        continue
      }
      const holders = this.#holders.get(agentId)
      if (holders) holders.set(row.instance, row)
      else this.#holders.set(agentId, new Map([[row.instance, row]]))
    }
  }

  #unlist(instance: InstanceId, agentId: AgentId): void {
    const holders = this.#holders.get(agentId)
    holders?.delete(instance)
    if (holders?.size === 0) this.#holders.delete(agentId)
  }
}

/**
 * Changes the connections of a row.
 *
 * @returns the agents concerned
 * @throws KasError INVALID_MESSAGE if it is out of bounds then; it is as before
 */
function change(row: TableRow, { removed, added }: RowDelta): ReadonlySet<AgentId> {
  const before = new Map<string, ConnectionEntry | undefined>()
  for (const id of [...removed, ...added.map((entry) => entry.id)]) before.set(id, row.connections.get(id))
  for (const id of removed) row.remove(id)
  for (const entry of added) row.add(entry)
  const agentIds = new Set(added.map((entry) => entry.agentId))
  for (const entry of before.values()) if (entry) agentIds.add(entry.agentId)
  try {
    row.checkBounds(agentIds)
  } catch (error) {
    for (const [id, entry] of before) {
      row.remove(id)
      if (entry) row.add(entry)
    }
    throw error
  }
  return agentIds
}

/** Agents whose connections are not the same in both. */
function differing(before: TableRow, after: TableRow): ReadonlySet<AgentId> {
  const agentIds = new Set<AgentId>()
  for (const [id, entry] of before.connections) {
    if (!isDeepStrictEqual(entry, after.connections.get(id))) agentIds.add(entry.agentId)
  }
  for (const [id, { agentId }] of after.connections) {
    if (before.connections.get(id)?.agentId !== agentId) agentIds.add(agentId)
  }
  return agentIds
}
