import type { AgentId } from '../call/call.ts'
import type { Listeners } from '../lib/listeners.ts'
import type { AgentShares } from './table/agent-shares.ts'
import type { RowRegistration } from './table/row.ts'
import type { PeerRegistration, Table } from './table/table.ts'

/** A pod that registered with a replica. The row gives it an id. */
export type Registration = Omit<RowRegistration, 'id'>

/** Which pods registered where: here in the own row, at peers in theirs. */
export interface RowRegistrations {
  /**
   * Into the own row, in place of the pod's former registration.
   *
   * @returns false if the agent has too many: it is not kept, and may be offered again
   * @throws KasError INVALID_MESSAGE if it is beyond `bounds`
   */
  add(registration: Registration): boolean
  /** Out of the own row. */
  remove(registration: Pick<Registration, 'agentId' | 'podId'>): void
  /** Of the agent, at peers. */
  of(agentId: AgentId): readonly PeerRegistration[]
  /** At peers. */
  all(): readonly Registration[]
  /** Calls `listener` with what was in the row of a peer once that row is removed, until the returned function is called. */
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
