import type { InventoryEntry } from '../round.ts'
import type { Reference } from './suspect.ts'

/** Returns the state of an object right after its last apply, as the inventory keeps it. @param owner - id of the source */
export function referenceOf({ uid, digest, fields, time, generation }: InventoryEntry, owner: string): Reference {
  return { uid, owner, digest, fields, time, generation }
}

/** Returns the reference of an object of which no apply is known. @param owner - id of the source */
export function unknownReference(owner: string): Reference {
  return { uid: '', owner, digest: '', fields: '' }
}

/**
 * True if the generation differs from that after the last apply. Another manager may have moved it, or items of a list
 * are in another order, which no entry shows.
 */
export function isMoved(entry: InventoryEntry, generation: number): boolean {
  return entry.generation !== undefined && generation !== entry.generation
}
