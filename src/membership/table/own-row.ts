import { isDeepStrictEqual } from 'node:util'
import type { AgentId } from '../../call/call.ts'
import {
  bounds,
  type ConnectionEntry,
  checkEntry,
  checkHead,
  entryBytes,
  type InstanceId,
  outOfBounds,
  type Row,
  type RowDelta,
  type RowHead,
  type RowSnapshot,
  type RowState,
} from './row.ts'

/** what an id takes on the wire beside its text */
const idOverheadBytes = 3

/** The row that this instance alone writes: each change is one version more. */
export class OwnRow implements Row {
  readonly instance: InstanceId
  readonly connections = new Map<string, ConnectionEntry>()
  readonly #perAgent = new Map<AgentId, number>()
  #head: RowHead
  #version = 1
  #bytes = 0
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

  /** Of its entries, by `entryBytes`. */
  get bytes(): number {
    return this.#bytes
  }

  get changed(): boolean {
    return this.#version > this.#from
  }

  /** @throws KasError INVALID_MESSAGE if the entry, or the row with it, is out of bounds; nothing has changed then */
  add(entry: ConnectionEntry): void {
    checkEntry(entry)
    const before = this.connections.get(entry.id)
    const count = (this.#perAgent.get(entry.agentId) ?? 0) + (before?.agentId === entry.agentId ? 0 : 1)
    if (count > bounds.connectionsOfAgent) throw outOfBounds('the number of connections of an agent')
    const bytes = this.#bytes + entryBytes(entry) - (before ? entryBytes(before) : 0)
    if (bytes > bounds.rowBytes) throw outOfBounds('the size of the row')
    if (before) this.#forget(before)
    this.connections.set(entry.id, entry)
    this.#bytes += entryBytes(entry)
    this.#perAgent.set(entry.agentId, (this.#perAgent.get(entry.agentId) ?? 0) + 1)
    this.#touch(entry.id)
  }

  /** @returns the agent of the connection; undefined if there is none of this id */
  remove(id: string): AgentId | undefined {
    const entry = this.connections.get(id)
    if (!entry) return undefined
    this.#forget(entry)
    this.#touch(id)
    return entry.agentId
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

  #forget(entry: ConnectionEntry): void {
    this.connections.delete(entry.id)
    this.#bytes -= entryBytes(entry)
    const left = (this.#perAgent.get(entry.agentId) ?? 1) - 1
    if (left > 0) this.#perAgent.set(entry.agentId, left)
    else this.#perAgent.delete(entry.agentId)
  }

  #touch(id: string): void {
    this.#touched.delete(id)
    this.#touched.set(id, ++this.#version)
  }

  /**
   * What changed since the last call, undefined if nothing has: the oldest changes, up to `maxBytes`, or one that is
   * larger; while there are more, `changed` says so. Every id that was touched counts as removed before the entries
   * that are there now are added, and ids that changed again later come with a later delta: so a delta is also right for
   * a row that was read in between.
   */
  takeDelta(maxBytes = Number.POSITIVE_INFINITY): RowDelta | undefined {
    if (!this.changed) return undefined
    const from = this.#from
    const head = this.#headVersion !== undefined && { head: this.#head }
    const added: ConnectionEntry[] = []
    const removed: string[] = []
    let bytes = 0
    for (const [id, version] of this.#touched) {
      const entry = this.connections.get(id)
      bytes += entry ? entryBytes(entry) : Buffer.byteLength(id) + idOverheadBytes
      if (bytes > maxBytes && added.length + removed.length > 0) break
      this.#touched.delete(id)
      this.#from = version
      if (entry) added.push(entry)
      else removed.push(id)
    }
    if (this.#touched.size === 0) this.#from = this.#version
    if (this.#headVersion !== undefined && this.#headVersion <= this.#from) this.#headVersion = undefined
    return { from, to: this.#from, removed, added, ...head }
  }

  snapshot(): RowSnapshot {
    return {
      instance: this.instance,
      version: this.#version,
      head: this.#head,
      connections: [...this.connections.values()],
    }
  }
}
