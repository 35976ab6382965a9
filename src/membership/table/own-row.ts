import { isDeepStrictEqual } from 'node:util'
import { ItemMap } from './item-map.ts'
import {
  bounds,
  byKind,
  checkHead,
  checkItem,
  type InstanceId,
  itemBytes,
  outOfBounds,
  type Row,
  type RowConnection,
  type RowDelta,
  type RowHead,
  type RowItem,
  type RowRegistration,
  type RowSnapshot,
  type RowState,
} from './row.ts'

/** what an id takes on the wire beside its text */
const idOverheadBytes = 3

/** The row that this instance alone writes: each change is one version more. */
export class OwnRow implements Row {
  readonly instance: InstanceId
  readonly #items = new ItemMap()
  #head: RowHead
  #version = 1
  // since the last delta
  #from = 1
  /** ids, and the version that each change made; the oldest first */
  readonly #touched = new Map<string, number>()
  /** the change that made the head, if it has not been taken with all that was before it */
  #headVersion: number | undefined

  constructor(instance: InstanceId, head: RowHead) {
    checkHead(head)
    this.instance = instance
    this.#head = head
  }

  get version(): number {
    return this.#version
  }

  get head(): RowHead {
    return this.#head
  }

  get connections(): ReadonlyMap<string, RowConnection> {
    return this.#items.connections
  }

  get registrations(): ReadonlyMap<string, RowRegistration> {
    return this.#items.registrations
  }

  /** Of its items, by `itemBytes`. */
  get bytes(): number {
    return this.#items.bytes
  }

  get changed(): boolean {
    return this.#version > this.#from
  }

  item(id: string): RowItem | undefined {
    return this.#items.get(id)
  }

  /** @throws KasError INVALID_MESSAGE if the item, or the row with it, is out of bounds; nothing has changed then */
  add(item: RowItem): void {
    checkItem(item)
    const before = this.#items.get(item.id)
    const count = this.#items.countOf(item.agentId) + (before?.agentId === item.agentId ? 0 : 1)
    if (count > bounds.itemsOfAgent) throw outOfBounds('the number of connections of an agent')
    const bytes = this.#items.bytes + itemBytes(item) - (before ? itemBytes(before) : 0)
    if (bytes > bounds.rowBytes) throw outOfBounds('the size of the row')
    this.#items.set(item)
    this.#touch(item.id)
  }

  remove(id: string): void {
    if (this.#items.delete(id)) this.#touch(id)
  }

  /** @returns whether it changed */
  setState(state: RowState): boolean {
    return this.setHead({ ...this.#head, state })
  }

  /**
   * @returns whether anything changed
   * @throws KasError INVALID_MESSAGE
   */
  setHead(head: RowHead): boolean {
    checkHead(head)
    if (isDeepStrictEqual(head, this.#head)) return false
    this.#head = head
    this.#headVersion = ++this.#version
    return true
  }

  #touch(id: string): void {
    this.#touched.delete(id)
    this.#touched.set(id, ++this.#version)
  }

  /**
   * What changed since the last call, undefined if nothing has: the oldest changes, up to `maxBytes`, or one that is
   * larger; while there are more, `changed` says so. Every id that was touched counts as removed before the items
   * that are there now are added, and ids that changed again later come with a later delta: so a delta is also right for
   * a row that was read in between.
   */
  takeDelta(maxBytes = Number.POSITIVE_INFINITY): RowDelta | undefined {
    if (!this.changed) return undefined
    const from = this.#from
    const head = this.#headVersion === undefined ? undefined : this.#head
    const added: RowItem[] = []
    const removed: string[] = []
    let bytes = 0
    for (const [id, version] of this.#touched) {
      const item = this.#items.get(id)
      bytes += item ? itemBytes(item) : Buffer.byteLength(id) + idOverheadBytes
      if (bytes > maxBytes && added.length + removed.length > 0) break
      this.#touched.delete(id)
      this.#from = version
      if (item) added.push(item)
      else removed.push(id)
    }
    if (this.#touched.size === 0) this.#from = this.#version
    if (this.#headVersion !== undefined && this.#headVersion <= this.#from) this.#headVersion = undefined
    return { from, to: this.#from, head, removed, ...byKind(added) }
  }

  snapshot(): RowSnapshot {
    return {
      instance: this.instance,
      version: this.#version,
      head: this.#head,
      connections: [...this.connections.values()],
      registrations: [...this.registrations.values()],
    }
  }
}
