import type { InventoryEntry } from '../round.ts'
import type { Reference } from './suspect.ts'

/** Returns the state of an object right after its last apply, as the inventory keeps it. @param owner - id of the source */
export function referenceOf({ uid, digest, fields, time, generation }: InventoryEntry, owner: string): Reference {
  return { uid, owner, digest, fields, time, generation }
}
