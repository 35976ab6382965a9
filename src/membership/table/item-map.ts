import type { AgentId } from '../../call/call.ts'
import { Counter } from '../../lib/counter.ts'
import { isConnection, itemBytes, type RowConnection, type RowItem, type RowRegistration } from './row.ts'

/** Items of one row: two kinds, with one space of ids, counted together. */
export class ItemMap {
  readonly #connections = new Map<string, RowConnection>()
  readonly #registrations = new Map<string, RowRegistration>()
  readonly #counts = new Counter<AgentId>()
  #bytes = 0

  get connections(): ReadonlyMap<string, RowConnection> {
    return this.#connections
  }

  get registrations(): ReadonlyMap<string, RowRegistration> {
    return this.#registrations
  }

  /** Size by `itemBytes`. */
  get bytes(): number {
    return this.#bytes
  }

  get(id: string): RowItem | undefined {
    return this.#connections.get(id) ?? this.#registrations.get(id)
  }

  countOf(agentId: AgentId): number {
    return this.#counts.of(agentId)
  }

  /** Adds an item, in place of one with its id. */
  set(item: RowItem): void {
    this.delete(item.id)
    if (isConnection(item)) this.#connections.set(item.id, item)
    else this.#registrations.set(item.id, item)
    this.#count(item, 1)
  }

  delete(id: string): RowItem | undefined {
    const item = this.get(id)
    if (!item) return undefined
    this.#connections.delete(id)
    this.#registrations.delete(id)
    this.#count(item, -1)
    return item
  }

  #count(item: RowItem, change: 1 | -1): void {
    this.#bytes += change * itemBytes(item)
    this.#counts.add(item.agentId, change)
  }
}
