import type { Socket } from 'node:net'
import type { AgentId } from '../../../../call/call.ts'

/** As kept connections are seen here; Connection is one. */
export interface Kept {
  readonly socket: Pick<Socket, 'destroySoon' | 'destroyed'>
  /** whose callers were let in on it first; undefined: none was */
  readonly owner: AgentId | undefined
}

/** Kept connections on which nothing runs, of each agent's callers: the longest idle makes room. */
export class IdleConnections {
  readonly #maxPerAgent: number
  readonly #onClosed: () => void
  /** the longest idle first */
  readonly #idle = new Map<AgentId, Set<Kept>>()

  /** @param onClosed - one was closed, for there were too many */
  constructor(maxPerAgent: number, onClosed: () => void) {
    this.#maxPerAgent = maxPerAgent
    this.#onClosed = onClosed
  }

  add(connection: Kept): void {
    const { owner, socket } = connection
    if (owner === undefined || socket.destroyed) return
    const idle = this.#idle.get(owner) ?? new Set()
    this.#idle.set(owner, idle)
    idle.add(connection)
    if (idle.size <= this.#maxPerAgent) return
    const [longest] = idle
    this.delete(longest as Kept)
    longest?.socket.destroySoon()
    this.#onClosed()
  }

  delete(connection: Kept): void {
    if (connection.owner === undefined) return
    const idle = this.#idle.get(connection.owner)
    idle?.delete(connection)
    if (idle?.size === 0) this.#idle.delete(connection.owner)
  }
}
