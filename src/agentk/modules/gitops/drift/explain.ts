import type { ObjectKey } from '../../../../kubernetes/key.ts'
import { isBeingDeleted, type KubernetesObject, textAt } from '../../../../kubernetes/object.ts'
import { objectPath, withQuery } from '../../../../kubernetes/path.ts'
import type { JsonAnswer } from '../../../cluster/api-client.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { maxEventBytes } from '../../../cluster/watch-request.ts'
import { beforeFirstApply, entriesOf, type FieldSet, ownEntry, without } from '../live/managed-fields.ts'
import { isNestedTooDeeply, maxNestingDepth } from '../live/nesting.ts'
import { entriesOfOthers } from '../live/owned-fields.ts'
import { type ApplyProblem, isStale, refusal } from '../live/refusal.ts'
import {
  type CompareComponents,
  type Compared,
  type CompareOptions,
  type CompareRequest,
  compareAnswers,
} from './compare-answers.ts'
import { shownDifference } from './shown-difference.ts'
import { entriesHash } from './suspect.ts'

/** Limit of the comparisons of one object that others write meanwhile, with two calls each. */
export const maxComparisons = 3

export interface ExplainComponents extends Omit<CompareComponents, 'withoutApply'> {
  /** acts as the source's account */
  readonly lane: ApiLane
  /** the same, for dry runs of this kind (`DryLanes`) */
  readonly dryLane: ApiLane
}

/** Result for one object; `live`: the live object, absent if there is none that can be read. */
export type DryRunComparison =
  | (Compared & { readonly live?: KubernetesObject })
  /** it exists until its finalizers are removed */
  | { readonly kind: 'beingDeleted' }
  /** the API server refuses the dry run, or the live object: nothing is known of its values */
  | {
      readonly kind: 'notComparable'
      /** it contains no values, and no keys of a Secret */
      readonly problem: ApplyProblem
      readonly live?: KubernetesObject
    }

/**
 * Compares a live object with Git: a forced dry-run apply, then a GET, as the source's account. Nothing is written.
 * If others write the object between the two calls, both are repeated, up to `maxComparisons` times. Each tool that has
 * applied fields that Git does not set takes one more dry run (`additionsOf`).
 *
 * @throws KasError CANCELLED if this pod may not write now, MESSAGE_TOO_LARGE for an answer above `maxEventBytes`; the
 * connection's error; or the signal's reason
 */
export async function explain(
  components: ExplainComponents,
  request: CompareRequest,
  options: CompareOptions,
  signal: AbortSignal,
): Promise<DryRunComparison> {
  const { lane, dryLane } = components
  const { key, kind } = request
  const path = objectPath(kind, key)
  for (let attempt = 0; attempt < maxComparisons; attempt++) {
    const dry = await dryRun(dryLane, path, request, options, signal)
    const read = await lane.json('GET', path, undefined, signal, { maxBytes: maxEventBytes })
    if (isAbsent(read)) return absence(key)
    if (read.status !== 200) return { kind: 'notComparable', problem: refusal(read, path) }
    const live = read.body as KubernetesObject
    if (textAt(live, 'metadata.uid') === '') return { kind: 'notComparable', problem: noObject }
    if (isBeingDeleted(live)) return { kind: 'beingDeleted' }
    if (isStale(dry) || dry.status === 201) continue // it was changed, or made, between the two calls
    if (dry.status !== 200) return { kind: 'notComparable', problem: refusal(dry, path), live }
    if (isNestedTooDeeply(live) || isNestedTooDeeply(dry.body)) return { kind: 'notComparable', problem: tooDeep, live }
    const answer = dry.body as KubernetesObject
    const own = ownEntry(entriesOf(answer), options.manager)
    if (!own) return { kind: 'notComparable', problem: noOwnFields(options.manager), live }
    if (!belongTogether(answer, live, { manager: options.manager, own: own.fieldsV1 })) continue
    const withoutApply = async (manager: string) => {
      const { status, body } = await dryRun(dryLane, path, request, { manager }, signal)
      return status === 200 && versionOf(body) === versionOf(live) ? (body as KubernetesObject) : undefined
    }
    const comparing = { ...components, withoutApply }
    return { ...(await compareAnswers(comparing, request, { dry: answer, live }, options, signal)), live }
  }
  const text = `others have changed it ${maxComparisons} times while it was compared`
  return { kind: 'notComparable', problem: { kind: 'busy', text } }
}

function dryRun(
  lane: ApiLane,
  path: string,
  { object }: CompareRequest,
  { manager }: Pick<CompareOptions, 'manager'>,
  signal: AbortSignal,
): Promise<JsonAnswer> {
  const target = withQuery(path, { fieldManager: manager, force: true })
  const options = { contentType: 'application/apply-patch+yaml', maxBytes: maxEventBytes }
  return lane.json('PATCH', target, object, signal, options)
}

function versionOf(object: unknown): string {
  return textAt(object, 'metadata.resourceVersion')
}

/** True if the object does not exist; false also for a kind that is not served: that answer names no object. */
function isAbsent({ status, body }: JsonAnswer): boolean {
  return status === 404 && textAt(body, 'details.name') !== ''
}

function absence(key: ObjectKey): Compared {
  const difference = { path: [], kind: 'gone', before: undefined, after: undefined } as const
  const differences = { listed: [shownDifference(difference, { key, by: 'unknown' })], more: 0 }
  return { kind: 'drifted', differences, ignored: { listed: [], more: 0 }, hasLostFields: false }
}

const noObject: ApplyProblem = { kind: 'unavailable', text: 'the answer of the API server is no object' }

const tooDeep: ApplyProblem = {
  kind: 'invalid',
  text: `its maps and lists are nested in more than ${maxNestingDepth} levels`,
}

function noOwnFields(manager: string): ApplyProblem {
  const text = `the answer to the dry run has no fields of ${manager}: the server of this kind does not keep owners`
  return { kind: 'invalid', text }
}

/**
 * True if the dry run was made from this live object: nobody has changed it between the two calls, or only its status.
 *
 * @param about.own - fields of the source in the answer: the dry run takes them from others
 */
function belongTogether(
  dry: KubernetesObject,
  live: KubernetesObject,
  { manager, own }: { readonly manager: string; readonly own: FieldSet },
): boolean {
  const version = versionOf(live)
  if (version !== '' && versionOf(dry) === version) return true
  const othersOf = (object: KubernetesObject) =>
    entriesHash(
      entriesOfOthers(entriesOf(object), manager).flatMap((entry) => {
        if (entry.manager === beforeFirstApply) return [] // made by the dry run
        const fieldsV1 = without(entry.fieldsV1, own)
        return Object.keys(fieldsV1).length === 0 ? [] : [{ ...entry, fieldsV1 }]
      }),
    )
  return textAt(dry, 'metadata.uid') === textAt(live, 'metadata.uid') && othersOf(dry) === othersOf(live)
}
