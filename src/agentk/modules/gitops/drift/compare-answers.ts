import type { ObjectKey } from '../../../../kubernetes/key.ts'
import { textAt } from '../../../../kubernetes/object.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { areReplicas } from '../apply/conflicts.ts'
import type { Scalers } from '../apply/scalers.ts'
import type { ClusterKind } from '../live/cluster-kinds.ts'
import { entriesOf, type ManagedEntry, ownEntry, usualReplicasPath, without } from '../live/managed-fields.ts'
import { FieldReader, type ManagedPath, pathText } from '../live/managed-path.ts'
import { isOwn, OwnedFields, pathsOf } from '../live/owned-fields.ts'
import type { ObjectTree } from '../manifests/manifest.ts'
import { type AdditionsComponents, additionsOf } from './additions.ts'
import { blame } from './blame.ts'
import {
  addedFields,
  type ComparedObjects,
  changesOfLive,
  differencesOf,
  type FieldDifference,
  unsetFields,
} from './differences.ts'
import { maxAheadMs } from './found.ts'
import { type Difference, shownDifference } from './shown-difference.ts'
import { addersOf, type Reference } from './suspect.ts'

/** Limit of the differences of one object that are listed; the others are counted. */
export const maxDifferences = 20
/** The API server writes times of entries in whole seconds. ms */
const entryTimeStepMs = 1000
/** A timer may end so much too early. ms */
const timerErrorMs = 1

export interface CompareComponents extends AdditionsComponents {
  /** called only for an object whose number of replicas, or its owner, differs */
  readonly scalers: Pick<Scalers, 'of' | 'pathOf'>
  /** the API server's time: ms since 1970 */
  readonly clock: Pick<Clock, 'now'>
}

export interface CompareRequest {
  readonly key: ObjectKey
  /** served by the API server itself: another server may store a dry run */
  readonly kind: ClusterKind
  /** as apply sends it, with the source's marks */
  readonly object: ObjectTree
  /** undefined: not known */
  readonly reference: Reference | undefined
}

export interface CompareOptions {
  /** field manager of the source */
  readonly manager: string
  /** true for a manager that `added_by` matches */
  readonly isAdder: (manager: string) => boolean
  /**
   * Returns the rule of `ignore` that leaves a field to others; undefined: none.
   *
   * @param managers - all others that own the field
   */
  readonly ignoredBy: (path: ManagedPath, managers: readonly string[]) => string | undefined
}

/** Differences of one object, up to a limit. */
export interface Differences {
  readonly listed: readonly Difference[]
  /** number of the others */
  readonly more: number
}

/**
 * Result of a comparison with the API server.
 *
 * - `inOrder`: all fields that Git sets are as Git sets them
 * - `drifted`: the live object was changed, is gone, or was made again
 * - `wouldChange`: the live object is as it was applied, and an apply would change it all the same: a webhook came later
 */
export interface Compared {
  readonly kind: 'inOrder' | 'drifted' | 'wouldChange'
  /** of `drifted`; of `wouldChange`, where `before` is the value that an apply would set */
  readonly differences: Differences
  /** values from Git that a rule of `ignore` leaves to others */
  readonly ignored: Differences
  /** for `inOrder`: another manager, or nobody, owns fields that Git sets. An apply would take them back */
  readonly hasLostFields: boolean
  /**
   * Moment after which the object is compared once more, by the API server's time: ms since 1970. Two changes of one
   * manager within one second leave the metadata equal, so no event may report the second one. Absent: not needed
   */
  readonly again?: number
}

/**
 * Compares the answer of a dry-run apply with the live object that belongs to it. It leaves out what an autoscaler
 * sets, and sets apart what a rule of `ignore` leaves to others.
 *
 * @throws the connection's error, or the signal's reason
 */
export async function compareAnswers(
  components: CompareComponents,
  request: CompareRequest,
  objects: ComparedObjects,
  options: CompareOptions,
  signal: AbortSignal,
): Promise<Compared> {
  const { key, object } = request
  const { manager, ignoredBy } = options
  const facts = factsOf(request, objects, options)
  const { ofLive, ofDryRun } = changesOfLive(facts.atOwnFields, object, facts.isAsApplied)
  const added = await additionsOf(facts.added, facts.owned, components)
  const changed = [...ofLive, ...added, ...facts.unset]
  const left = await pathsOfScalers(components, request, [...changed, ...facts.lost], facts, signal)
  const isLeft = ({ path }: { readonly path: ManagedPath }) => left.has(pathText(path))
  const ruleOf = ({ path }: { readonly path: ManagedPath }) => ignoredBy(path, facts.managersOf(path))
  const drift = [...facts.made]
  const ignored: (readonly [FieldDifference, string])[] = []
  for (const difference of changed) {
    if (isLeft(difference)) continue
    const rule = ruleOf(difference)
    if (rule === undefined) drift.push(difference)
    else ignored.push([difference, rule])
  }
  const byOf = (difference: FieldDifference) => blame(facts.owned, difference, manager)
  const kind = drift.length > 0 ? 'drifted' : ofDryRun.length > 0 ? 'wouldChange' : 'inOrder'
  const differences =
    kind === 'drifted'
      ? listed(drift, (one) => shownDifference(one, { key, by: byOf(one) }))
      : listed(ofDryRun, (one) => shownDifference(one, { key, by: 'unknown' }))
  const hasLostFields = kind === 'inOrder' && facts.lost.some((field) => !isLeft(field) && ruleOf(field) === undefined)
  const isChanged = drift.length > 0 || ignored.length > 0 || hasLostFields || facts.added.length > 0
  const again = isChanged ? againAt(changed, facts, components.clock) : undefined
  return {
    kind,
    differences,
    ignored: listed(ignored, ([one, rule]) => shownDifference(one, { key, by: byOf(one), rule })),
    hasLostFields,
    ...(again !== undefined && { again }),
  }
}

/** Facts about one pair of answers. */
interface Facts {
  /** differences at the fields that the source applies */
  readonly atOwnFields: readonly FieldDifference[]
  readonly added: readonly FieldDifference[]
  /** fields that the source's own manager has applied, and that an apply of this manifest would remove or reset */
  readonly unset: readonly FieldDifference[]
  /** the object has another uid than after the last apply: one difference; else none */
  readonly made: readonly FieldDifference[]
  /** fields that the source applies and owns no longer */
  readonly lost: readonly { readonly path: ManagedPath; readonly after: unknown }[]
  /** owners of the fields of the live object, and the source as owner of all that it applies */
  readonly owned: OwnedFields
  /** the source's entries: in the answer of the dry run, and in the live object */
  readonly own: { readonly dry: ManagedEntry | undefined; readonly live: ManagedEntry | undefined }
  readonly managersOf: (path: ManagedPath) => readonly string[]
  readonly isAsApplied: (difference: FieldDifference) => boolean
  /** entries of the live object, without the source's */
  readonly others: readonly ManagedEntry[]
  /** the source's live entry is the one of its last apply */
  readonly isSameApply: boolean
}

function factsOf(
  { reference }: CompareRequest,
  { dry, live }: ComparedObjects,
  { manager, isAdder }: CompareOptions,
): Facts {
  const entries = entriesOf(live)
  const own = { dry: ownEntry(entriesOf(dry), manager), live: ownEntry(entries, manager) }
  const others = entries.filter((entry) => entry !== own.live)
  const owned = new OwnedFields(own.dry ? [...others, own.dry] : others)
  const ownedLive = new OwnedFields(own.live ? [own.live] : [])
  const fields = own.dry?.fieldsV1 ?? {}
  const uid = textAt(live, 'metadata.uid')
  const isSame = reference !== undefined && ['', uid].includes(reference.uid)
  const isSameApply = isSame && own.live !== undefined && [undefined, textAt(own.live, 'time')].includes(reference.time)
  const reader = new FieldReader()
  return {
    atOwnFields: differencesOf({ dry, live }, fields),
    added: addedFields(live, owned, addersOf(others, { manager, isAdder })),
    unset: unsetFields({ dry, live }, own),
    made:
      reference && !isSame
        ? [{ path: ['f:metadata', 'f:uid'], kind: 'changed', before: reference.uid, after: uid }]
        : [],
    lost: pathsOf(without(fields, own.live?.fieldsV1 ?? {})).map((path) => ({ path, after: reader.at(live, path) })),
    owned,
    own,
    managersOf: (path) => {
      const owners = owned.owners(path).filter((entry) => !isOwn(entry, manager))
      return [...new Set(owners.map((entry) => textAt(entry, 'manager')))]
    },
    isAsApplied: ({ path }) => isSameApply && ownedLive.owners(path).length > 0,
    others,
    isSameApply,
  }
}

/**
 * Returns the paths, as texts, of the number of replicas that an autoscaler sets: an apply leaves it too.
 *
 * @param fields - with their live values, or Git's where there is none
 */
async function pathsOfScalers(
  { scalers }: CompareComponents,
  { key, kind }: CompareRequest,
  fields: readonly { readonly path: ManagedPath; readonly before?: unknown; readonly after: unknown }[],
  { owned }: Facts,
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  const isOfScale = (path: ManagedPath) => owned.owners(path).some((entry) => textAt(entry, 'subresource') === 'scale')
  const numbers = fields.filter(({ before, after }) => typeof (after ?? before) === 'number')
  if (numbers.length === 0) return new Set()
  const usual = (await scalers.pathOf(kind, signal)) ?? usualReplicasPath
  const replicas = numbers.flatMap(({ path }) => {
    const field = pathText(path)
    return areReplicas({ field, manager: '', subresource: isOfScale(path) ? 'scale' : '' }, usual) ? [field] : []
  })
  if (replicas.length === 0 || (await scalers.of(key, signal)) === 'no') return new Set()
  return new Set(replicas)
}

/**
 * Returns the end of the second in which the newest change of others was made, if another change may follow within it.
 * The time of the dry run is in the source's entry if it changes anything; else the clock decides. The clock may be
 * ahead of the API server: if the second ends later than it says, this is a whole second from now.
 */
function againAt(
  changed: readonly FieldDifference[],
  { others, own, isSameApply }: Facts,
  clock: Pick<Clock, 'now'>,
): number | undefined {
  const isOfStatus = (entry: ManagedEntry) => textAt(entry, 'subresource') === 'status'
  const ofStatus = others.filter(isOfStatus)
  const ofChanges = new OwnedFields(ofStatus)
  const relevant = new Set<ManagedEntry>(others.filter((entry) => !isOfStatus(entry)))
  for (const { path } of changed) for (const entry of ofChanges.owners(path)) relevant.add(entry)
  if (own.live && !isSameApply) relevant.add(own.live)
  const times = Array.from(relevant, (entry) => textAt(entry, 'time'))
  const newest =
    times
      .filter((time) => Date.parse(time) <= clock.now() + maxAheadMs)
      .sort()
      .at(-1) ?? ''
  const until = Date.parse(newest) + entryTimeStepMs
  if (Number.isNaN(until)) return undefined
  const dryAt = textAt(own.dry, 'time')
  const hasDryTime = dryAt !== '' && dryAt !== textAt(own.live, 'time')
  const isOverByClock = clock.now() >= until - timerErrorMs
  if (hasDryTime ? dryAt > newest : isOverByClock) return undefined
  return isOverByClock ? clock.now() + entryTimeStepMs : until
}

function listed<T>(all: readonly T[], show: (one: T) => Difference): Differences {
  return { listed: all.slice(0, maxDifferences).map(show), more: Math.max(0, all.length - maxDifferences) }
}
