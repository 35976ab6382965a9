import { listAt } from '../../../../kubernetes/object.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { pause } from '../../../../lib/pause.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'

/** Object that another one needs, and that did not exist when the API server refused that one. */
export interface AbsentObject {
  /** path in the API: 404 until the object exists */
  readonly path: string
  /** set if `path` is a list of resources, or of endpoint slices: the object exists once the list has this */
  readonly holds?: { readonly kind: string } | 'endpoints'
}

/** Interval in which each object is checked. ms */
const pollMs = 2000
/** Limit of absent objects that are checked for one source. */
const maxAbsent = 10

export interface AbsentObjectsComponents {
  /** agentk's own, then the source account's: each is asked where the one before may not read. Other work goes first */
  readonly lanes: readonly ApiLane[]
  readonly clock: Clock
}

/**
 * Waits until an absent object exists, so that the objects that need it are tried again before their pause ends.
 *
 * @param known - paths that existed at the first check. Each of these counts once: it may have come between the
 * refusal and the check, or something else is wrong
 * @returns true if one has come; false: none is missing, the signal has aborted, or nobody may read them
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

/** `unknown`: it is checked again. */
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
