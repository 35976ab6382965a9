import type { LiveObject } from '../live/live-object.ts'
import { leftAlone } from '../manifests/left-alone.ts'
import type { Manifest } from '../manifests/manifest.ts'
import { runsOnce } from '../manifests/run-once.ts'
import type { InventoryEntry } from '../round.ts'

/**
 * Comparison of an object with its last apply:
 *
 * - `asApplied`: nothing has changed since, or the object is left alone
 * - `changed`: Git has changed it, it was never applied, or it is another source's
 * - `drifted`: Git has not changed it, and its metadata differ from those after the last apply, or it is known to differ
 */
export type Standing = 'asApplied' | 'changed' | 'drifted'

export interface StandingInput {
  /** id of the source */
  readonly id: string
  readonly entry: InventoryEntry | undefined
  /** null: it cannot be read */
  readonly live: LiveObject | null | undefined
  /** its replicas differ, though the applied fields have not changed */
  readonly isUnscaled: boolean
  /** a comparison has found drift that its metadata need not show */
  readonly isDrifted: boolean
}

export function standingOf(manifest: Manifest, { id, entry, live, isUnscaled, isDrifted }: StandingInput): Standing {
  const { digest, version } = manifest
  const left = leftAlone(manifest)
  if (left === 'always' || (left === 'present' && live) || live?.isLeftAlone) return 'asApplied'
  if (entry?.digest !== digest || entry.version !== version || live === null || isUnscaled) return 'changed'
  if ((!live || live.isBeingDeleted) && runsOnce(manifest, entry)) return 'asApplied'
  if (!live) return 'drifted'
  if (live.isBeingDeleted || (live.owner !== '' && live.owner !== id)) return 'changed'
  // an earlier pod has found what metadata need not show: its record says since when
  const isRecorded = (entry.drift?.since ?? 0) > 0
  return isAsApplied(entry, live, id) && !isDrifted && !isRecorded ? 'asApplied' : 'drifted'
}

/**
 * Returns true if metadata show an object as the last apply has left it. An entry of an older agentk has neither time
 * nor generation: then equal digest and hash make the live ones the reference.
 *
 * @param id - id of the source
 */
export function isAsApplied(entry: InventoryEntry, live: LiveObject, id: string): boolean {
  const { digest, fields, uid, time, generation, ignored } = entry
  const isSameApply = live.digest === digest && live.fields === fields && live.uid === uid
  if (!isSameApply || live.owner !== id || live.isBeingDeleted) return false
  if (time !== undefined && live.fieldsTime !== time) return false
  // a manager has given up a field that was left to it: Git's value counts again
  if (ignored !== undefined && ignored !== live.ignored) return false
  return generation === undefined || live.generation === generation || live.hasOtherWriters
}
