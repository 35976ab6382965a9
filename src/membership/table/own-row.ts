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

/** greatest size of an id on the wire without its text */
const idOverheadBytes = 3

/** The row that only this instance writes: each change increases its version by one. */
export class OwnRow implements Row {
  readonly instance: InstanceId
  readonly #items = new ItemMap()
  #head: RowHead
  #version = 1
  // since the last delta
  #from = 1
  /** versions of the changes, by id; the oldest first */
  readonly #touched = new Map<string, number>()
  /** version that changed the head, until all changes up to it are taken */
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

  /** size of its items, by `itemBytes` */
  get bytes(): number {
    return this.#items.bytes
  }

  get changed(): boolean {
    return this.#version > this.#from
  }

  item(id: string): RowItem | undefined {
    return this.#items.get(id)
  }

  /** @throws KasError INVALID_MESSAGE if the item, or the row with it, is out of bounds; then nothing has changed */
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

  /** @returns false: nothing has changed */
  setState(state: RowState): boolean {
    return this.setHead({ ...this.#head, state })
  }

  /**
   * @returns false: nothing has changed
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
   * Returns the oldest changes since the last call, up to `maxBytes`, or a single larger one; undefined: none.
   * `changed` is true while there are more. Each changed id counts as removed before the items of now are added, and
   * ids that changed again come with a later delta. So a delta also applies to a row that was read in between.
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
