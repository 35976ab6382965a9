import type { AgentId } from '../call/call.ts'
import type { Listeners } from '../lib/listeners.ts'
import type { AgentShares } from './table/agent-shares.ts'
import type { RowRegistration } from './table/row.ts'
import type { PeerRegistration, Table } from './table/table.ts'

/** A pod that registered with a replica. The row gives it an id. */
export type Registration = Omit<RowRegistration, 'id'>

/** Pods that registered with replicas: with this one in the own row, with peers in theirs. */
export interface RowRegistrations {
  /**
   * Adds a registration to the own row, in place of the pod's former one.
   *
   * @returns false: the agent has too many, so it is not kept; it may be offered again
   * @throws KasError INVALID_MESSAGE if it is beyond `bounds`
   */
  add(registration: Registration): boolean
  /** Removes a registration from the own row. */
  remove(registration: Pick<Registration, 'agentId' | 'podId'>): void
  /** Registrations of the agent at peers. */
  of(agentId: AgentId): readonly PeerRegistration[]
  /** Registrations at peers. */
  all(): readonly Registration[]
  /**
   * Calls `listener` with the registrations of a peer's row once the row is removed, until the returned function is
   * called.
   */
  onRowRemoved(listener: (registrations: readonly Registration[]) => void): () => void
}

export function createRowRegistrations({
  shares,
  table,
  rowRemoved,
}: {
  readonly shares: AgentShares
  readonly table: Table
  readonly rowRemoved: Listeners<readonly Registration[]>
}): RowRegistrations {
  return {
    add: (registration) => shares.put({ ...registration, id: idOf(registration) }),
    remove: (registration) => shares.remove(idOf(registration)),
    of: (agentId) => table.registrations(agentId),
    all: () => table.rows().flatMap(({ registrations }) => [...registrations.values()]),
    onRowRemoved: (listener) => rowRemoved.add(listener),
  }
}

function idOf({ agentId, podId }: Pick<Registration, 'agentId' | 'podId'>): string {
  return `pod ${agentId} ${podId}`
}
