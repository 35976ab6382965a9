import type { ObjectKey } from '../../../../kubernetes/key.ts'

/**
 * `planned`: an apply may have been sent; `applied`; `failed`: the last apply, or its prune, was refused; `waits`: it
 * has left the commit and stays for now, for an approval or for what its reason says; `detached`: never pruned, it left with a change of the configuration.
 */
export const entryStates = ['planned', 'applied', 'failed', 'waits', 'detached'] as const
export type EntryState = (typeof entryStates)[number]

/** An object that a source has made, or is about to make. */
export interface InventoryEntry {
  readonly key: ObjectKey
  readonly version: string
  /** empty: not known yet */
  readonly uid: string
  readonly wave: number
  /** of what was applied last; empty: nothing yet */
  readonly digest: string
  /** hash of our manager's FieldsV1 after that; empty: not known */
  readonly fields: string
  readonly state: EntryState
  /** why it is in that state; empty: nothing to say */
  readonly reason: string
}
