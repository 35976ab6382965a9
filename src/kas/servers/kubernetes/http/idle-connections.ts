import type { Socket } from 'node:net'
import type { AgentId } from '../../../../call/call.ts'

/** Caller that was let in on a connection first. */
export interface Owner {
  readonly agentId: AgentId
  /** key of the caller */
  readonly callerKey: string
}

/** A kept connection; implemented by Connection. */
export interface Kept {
  readonly socket: Pick<Socket, 'destroyed'>
  /** undefined: no caller was let in */
  readonly owner: Owner | undefined
  /** Closes the connection. */
  drop(): void
}

/** Idle connections of one agent's callers. */
interface Idle {
  size: number
  /** by the caller's key, the longest idle first */
  readonly byCaller: Map<string, Set<Kept>>
}

/**
 * Keeps the idle connections of each agent's callers, including those whose clients still have to close. If there are
 * too many, the longest idle one of the caller with most is closed. So a caller that opens very many does not cost the
 * others theirs.
 */
export class IdleConnections {
  readonly #maxPerAgent: number
  readonly #onClosed: () => void
  readonly #agents = new Map<AgentId, Idle>()

  /** @param onClosed - called when a connection was closed because there were too many */
  constructor(maxPerAgent: number, onClosed: () => void) {
    this.#maxPerAgent = maxPerAgent
    this.#onClosed = onClosed
  }

  add(connection: Kept): void {
    const { owner, socket } = connection
    if (owner === undefined || socket.destroyed) return
    const idle = this.#agents.get(owner.agentId) ?? { size: 0, byCaller: new Map<string, Set<Kept>>() }
    this.#agents.set(owner.agentId, idle)
    const own = idle.byCaller.get(owner.callerKey) ?? new Set()
    idle.byCaller.set(owner.callerKey, own)
    if (own.has(connection)) return
    own.add(connection)
    idle.size++
    if (idle.size <= this.#maxPerAgent) return
    const [longest] = largest(idle.byCaller.values())
    if (!longest) return
    this.delete(longest)
    longest.drop()
    this.#onClosed()
  }

  delete(connection: Kept): void {
    if (connection.owner === undefined) return
    const { agentId, callerKey } = connection.owner
    const idle = this.#agents.get(agentId)
    const own = idle?.byCaller.get(callerKey)
    if (!idle || !own?.delete(connection)) return
    if (own.size === 0) idle.byCaller.delete(callerKey)
    idle.size--
    if (idle.size === 0) this.#agents.delete(agentId)
  }
}

function largest(all: Iterable<Set<Kept>>): Set<Kept> {
  let most = new Set<Kept>()
  for (const one of all) if (one.size > most.size) most = one
  return most
}
