import { isDeepStrictEqual } from 'node:util'
import type { AgentId } from '../proto/call.ts'
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
  readonly #touched = new Set<string>()
  #headChanged = false

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
    this.#headChanged = true
    this.#version++
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
    this.#touched.add(id)
    this.#version++
  }

  /**
   * What changed since the last call; undefined if nothing has. Every id that was touched counts as removed before the
   * entries that are there now are added: so the delta is also right for a row that was read in between.
   */
  takeDelta(): RowDelta | undefined {
    if (!this.changed) return undefined
    const added: ConnectionEntry[] = []
    const removed: string[] = []
    for (const id of this.#touched) {
      const entry = this.connections.get(id)
      if (entry) added.push(entry)
      else removed.push(id)
    }
    const delta: RowDelta = {
      from: this.#from,
      to: this.#version,
      removed,
      added,
      ...(this.#headChanged && { head: this.#head }),
    }
    this.#from = this.#version
    this.#touched.clear()
    this.#headChanged = false
    return delta
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
