import { Counter, Gauge } from 'prom-client'
import type { AgentId } from '../../call/call.ts'
import { hasShare } from '../../call/caller.ts'
import { KasError, type MemoryShare, memoryShareNames } from '../../lib/errors.ts'
import type { Registry } from '../../lib/metrics.ts'
import { type Share, SharedTotal } from '../../lib/shared-total.ts'
import type { EnterShare } from '../../proto/grpc/unread-bytes.ts'
import { memoryLimit, type ReplicaShares, replicaShares } from './replica-shares.ts'
import { Tenants } from './tenants.ts'

/**
 * Part of `unread` that must be free, or made free, for a new answer. Otherwise a running call would soon end for it.
 */
const answerPart = 1 / 16

/**
 * Bytes that wait at this replica. Each share of the pod's memory is one total of all agents, divided first among
 * tenants and then among callers (doc/decisions/0035).
 */
export class ReplicaMemory {
  readonly tenants = new Tenants()
  readonly #totals: Readonly<Record<MemoryShare, SharedTotal>>

  /** @param register - absent: there are no metrics */
  constructor(
    shares: Pick<ReplicaShares, 'unreadBytes' | 'callersBytes'> = replicaShares(memoryLimit()),
    register?: Registry,
  ) {
    let full: ((share: MemoryShare) => void) | undefined
    const total = (share: MemoryShare, maxBytes: number) =>
      new SharedTotal({ maxBytes, isOne: hasShare, onFull: () => full?.(share) })
    this.#totals = {
      unread: total('unread', shares.unreadBytes),
      callers: total('callers', shares.callersBytes),
    }
    full = register && createMemoryMetrics(register, this.#totals)
  }

  /** bytes of all shares */
  get bytes(): number {
    return Object.values(this.#totals).reduce((sum, { bytes }) => sum + bytes, 0)
  }

  get unread(): SharedTotal {
    return this.#totals.unread
  }

  /**
   * Enters a caller's share of a total, for an agent. The caller calls `leave`.
   *
   * @param callerKey - absent: the agent itself
   */
  enter(share: MemoryShare, agentId: AgentId, callerKey = `agent ${agentId}`): Share {
    return this.#totals[share].enter(this.tenants.of(agentId), callerKey)
  }

  /** True if there is room, or if the caller with most makes it. False: this caller, or its tenant, has most. */
  hasRoom(share: MemoryShare, agentId: AgentId, callerKey: string, bytes: number): boolean {
    const total = this.#totals[share]
    if (total.bytes + bytes <= total.maxBytes) return true
    const own = this.enter(share, agentId, callerKey)
    const isAdmitted = own.admit(bytes)
    if (isAdmitted) own.remove(bytes)
    own.leave()
    return isAdmitted
  }

  /**
   * Makes sure that a new call's answer has room.
   *
   * @throws KasError REPLICA_MEMORY_FULL: its caller, or the tenant, has most
   */
  expectAnswer(agentId: AgentId, callerKey: string): void {
    if (!this.hasRoom('unread', agentId, callerKey, this.unread.maxBytes * answerPart))
      throw new KasError({ code: 'REPLICA_MEMORY_FULL', share: 'unread', limit: this.unread.maxBytes })
  }

  /** Returns the entry for bytes that are sent and not read. */
  unreadOf(agentId: AgentId): EnterShare {
    return (callerKey) => this.enter('unread', agentId, callerKey)
  }
}

/** @returns function that counts an end, or a refusal, for lack of room */
export function createMemoryMetrics(
  register: Registry,
  totals: Readonly<Partial<Record<MemoryShare, Pick<SharedTotal, 'bytes' | 'maxBytes'>>>>,
): (share: MemoryShare) => void {
  const registers = [register]
  const labelNames = ['share']
  const gauge = (name: string, help: string, read: (total: Pick<SharedTotal, 'bytes' | 'maxBytes'>) => number) =>
    new Gauge({
      name,
      help,
      labelNames,
      registers,
      collect() {
        for (const [share, total] of Object.entries(totals)) this.set({ share }, read(total))
      },
    })
  gauge('kas_memory_share_bytes', 'Bytes of each share of the memory that are in use', ({ bytes }) => bytes)
  gauge('kas_memory_share_limit_bytes', 'Bytes of each share of the memory', ({ maxBytes }) => maxBytes)
  const full = new Counter({
    name: 'kas_memory_share_full_total',
    help: 'Connections, calls and answers that ended to make room in a full share of the memory, or were refused',
    labelNames,
    registers,
  })
  for (const share of memoryShareNames) full.inc({ share }, 0)
  return (share) => full.inc({ share })
}
