import type { ObjectKey } from '../../../../kubernetes/key.ts'
import { beingDeleted } from '../live/deletion.ts'
import type { LiveObject } from '../live/live-object.ts'
import type { ApplyProblem } from '../live/refusal.ts'

export interface OwnershipOptions {
  /** id of the source, and value of its owner annotation */
  readonly id: string
  readonly manager: string
  /** ids of inventories, and managers */
  readonly adopt: readonly string[]
  readonly inventoryPolicy: 'must_match' | 'adopt_if_no_inventory' | 'adopt_all'
  /** another source of this agent has released the object */
  readonly isHandedOver: (owner: string, key: ObjectKey) => boolean
}

/**
 * Returns the reason for which a source may not apply a live object.
 *
 * @param of.uid - uid of the object that this source has made; empty: not known. @returns undefined: it may apply it
 */
export function ownershipProblem(
  live: LiveObject,
  { key, uid }: { readonly key: ObjectKey; readonly uid: string },
  { id, manager: own, adopt, inventoryPolicy, isHandedOver }: OwnershipOptions,
): ApplyProblem | undefined {
  if (live.isBeingDeleted) return { kind: 'busy', text: beingDeleted(live.holds) }
  const { owner } = live
  if (owner === id || inventoryPolicy === 'adopt_all') return undefined
  if (owner === '') {
    const isKnown = uid !== '' && uid === live.uid
    if (isKnown || inventoryPolicy === 'adopt_if_no_inventory') return undefined
    // the source's own: it was taken over, and not applied yet
    if (live.managers.some((manager) => manager === own || adopt.includes(manager))) return undefined
    return { kind: 'foreign', text: 'it is there already, and no source has made it: inventory_policy, adopt' }
  }
  if (adopt.includes(owner) || isHandedOver(owner, key)) return undefined
  return {
    kind: 'foreign',
    text: `it belongs to inventory ${owner}: adopt that once its source has left the configuration`,
  }
}
