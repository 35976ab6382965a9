import { listAt } from '../../../../kubernetes/object.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { pause } from '../../../../lib/pause.ts'
import type { ApiLane } from '../../../cluster/api-lanes.ts'

/** Something that an object needs, and that was not there when the object was refused. */
export interface AbsentObject {
  /** of the API server: 404 until it is there */
  readonly path: string
  /** at `path` are the resources of a version, or slices of endpoints: it is there once they have this */
  readonly holds?: { readonly kind: string } | 'endpoints'
}

/** So often each is asked about. ms */
const pollMs = 2000
/** Absent objects of one source that are asked about at once. */
const maxAbsent = 10

export interface AbsentObjectsComponents {
  /** of agentk itself, and of the source's account: each is asked where the one before may not read. Other work goes first */
  readonly lanes: readonly ApiLane[]
  readonly clock: Clock
}

/**
 * Waits until one of the objects that are not there is: what lacks it is tried again then, and not only after its pause.
 *
 * @param known - paths of what was there at the first check already. Such an object counts once: it may have come between
 *   the refusal and the check, or something else is wrong
 * @returns whether one has come; false: none is missing, the signal has aborted, or nobody may read them
 */
export async function absentCame(
  { lanes, clock }: AbsentObjectsComponents,
  absent: readonly AbsentObject[],
  known: Set<string>,
  signal: AbortSignal,
): Promise<boolean> {
  const waiting = new Map(absent.slice(0, maxAbsent).map((one) => [one.path, one]))
  const missing = new Set<string>()
  while (!signal.aborted) {
    for (const one of waiting.values()) {
      const found = await check(one, lanes, signal)
      if (signal.aborted) return false
      if (found === 'absent') missing.add(one.path)
      if (found === 'unreadable') waiting.delete(one.path)
      if (found !== 'there') continue
      if (missing.has(one.path) || !known.has(one.path)) {
        known.add(one.path)
        return true
      }
      waiting.delete(one.path)
    }
    if (waiting.size === 0) return false
    await pause(pollMs, clock, signal)
  }
  return false
}

/** `unknown`: it is asked again. */
async function check(
  { path, holds }: AbsentObject,
  lanes: readonly ApiLane[],
  signal: AbortSignal,
): Promise<'there' | 'absent' | 'unreadable' | 'unknown'> {
  for (const lane of lanes) {
    const answer = await lane.json('GET', path, undefined, signal).catch(() => undefined)
    if (answer?.status === 401 || answer?.status === 403) continue
    if (answer?.status === 404) return 'absent'
    if (answer?.status !== 200) return 'unknown'
    return holds === undefined || hasIn(answer.body, holds) ? 'there' : 'absent'
  }
  return 'unreadable'
}

function hasIn(body: unknown, holds: NonNullable<AbsentObject['holds']>): boolean {
  if (holds !== 'endpoints') return listAt(body, 'resources').some(({ kind }) => kind === holds.kind)
  return listAt(body, 'items').some((slice) => listAt(slice, 'endpoints').length > 0)
}
