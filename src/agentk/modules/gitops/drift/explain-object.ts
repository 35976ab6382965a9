import type { ObjectKey } from '../../../../kubernetes/key.ts'
import type { KubernetesObject } from '../../../../kubernetes/object.ts'
import { objectPath, withQuery } from '../../../../kubernetes/path.ts'
import type { Clock } from '../../../../lib/clock.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { isTooLarge, metadataOnly } from '../../../cluster/object-list.ts'
import { maxEventBytes as maxBytes } from '../../../cluster/watch-request.ts'
import { type IgnoreRules, ignoredFields, ignoringRule, readRules } from '../apply/ignored-fields.ts'
import { Scalers } from '../apply/scalers.ts'
import type { ChangeAuthor } from '../finding.ts'
import { isAdderOf } from '../live/adders.ts'
import type { ClusterKind, ClusterKinds } from '../live/cluster-kinds.ts'
import type { DryLanes } from '../live/dry-lanes.ts'
import { parseStep } from '../live/field-places.ts'
import { liveObjectOf } from '../live/live-object.ts'
import type { ManagedPath } from '../live/managed-path.ts'
import { refusal } from '../live/refusal.ts'
import { marked } from '../manifests/annotations.ts'
import { runsOnce } from '../manifests/run-once.ts'
import type { InventoryEntry } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import type { Compared, Differences } from './compare-answers.ts'
import { type DryRunComparison, explain } from './explain.ts'
import type { ComparedLive, Explanation } from './explanation.ts'
import { holdUntil } from './hold.ts'
import type { ComparedManifest } from './kept-manifests.ts'
import { referenceOf } from './reference.ts'
import { baselineOf, isProven, isRewritten, type Reference, suspicion } from './suspect.ts'

export interface ExplainObjectComponents {
  /** acts as the source's account */
  readonly lane: ApiLane
  /** acts as agentk itself */
  readonly ownLane: ApiLane
  readonly dryLanes: Pick<DryLanes, 'laneOf'>
  readonly kinds: ClusterKinds
  /** takes each object that was read whole */
  readonly onRead?: (key: ObjectKey, object: KubernetesObject) => void
  readonly clock: Pick<Clock, 'now'>
}

/** An object whose kind is served, with what its source's options say of it. */
interface ServedObject {
  readonly manifest: ComparedManifest
  readonly entry: InventoryEntry
  readonly kind: ClusterKind
  readonly reference: Reference
  readonly rules: IgnoreRules
  readonly isAdder: (manager: string) => boolean
  readonly options: SourceOptions
}

/**
 * Compares an object with what an apply of its manifest would make of it (`explain`).
 *
 * @throws the connection's error, or the signal's reason
 */
export async function explainObject(
  { manifest, entry }: { readonly manifest: ComparedManifest; readonly entry: InventoryEntry },
  components: ExplainObjectComponents,
  options: SourceOptions,
  signal: AbortSignal,
): Promise<Explanation> {
  const served = servedObject({ manifest, entry }, components, options)
  if (!served) return { kind: 'notCompared', of: undefined, reason: notServed(manifest, components), isProven: false }
  const dry = await components.dryLanes.laneOf(served.kind, signal)
  if ('risk' in dry) return await judgeByOwners(served, dry.risk, components.lane, signal)
  try {
    return await judgeByValues(served, dry.lane, components, signal)
  } catch (error) {
    if (!isTooLarge(error)) throw error
    return await judgeUnread(served, components.lane, signal)
  }
}

/** Reason for which an object is not compared that anybody who may write it has made so large. */
const tooLarge = `as JSON it is larger than ${maxBytes / 1024 ** 2} MiB, which is the limit of an object that agentk reads`

/** Judges an object that is too large to be read: its metadata may prove a change, and cannot prove that there is none. */
async function judgeUnread(served: ServedObject, lane: ApiLane, signal: AbortSignal): Promise<Explanation> {
  const unread = { kind: 'notCompared', of: undefined, reason: tooLarge, isProven: false } as const
  try {
    const found = await judgeByOwners(served, tooLarge, lane, signal)
    return found.kind === 'same' && found.of ? { ...unread, of: found.of } : found
  } catch (error) {
    if (!isTooLarge(error)) throw error
    return unread
  }
}

/** Result for an object whose replicas an autoscaler has set, and nothing else has moved. */
export const leftToScaler: Explanation = { kind: 'same', of: undefined, hasLostFields: false }

/** True if an autoscaler targets the object. @throws the connection's error, or the signal's reason */
export async function isScaled(
  key: ObjectKey,
  { lane, ownLane, kinds }: Pick<ExplainObjectComponents, 'lane' | 'ownLane' | 'kinds'>,
  signal: AbortSignal,
): Promise<boolean> {
  return (await new Scalers({ lane, ownLane, kinds, manifests: [] }).of(key, signal)) === 'yes'
}

/** Differences of one object with their values. */
export type ComparedValues =
  | Pick<Compared, 'kind' | 'differences' | 'ignored'>
  /** its values are not known */
  | { readonly kind: 'notCompared'; readonly reason: string }
  /** it exists until its finalizers are removed */
  | { readonly kind: 'beingDeleted' }

/** Compares an object as `explainObject` does, for people who may read it. @throws as `explainObject` */
export async function valuesOfObject(
  { manifest, entry }: { readonly manifest: ComparedManifest; readonly entry: InventoryEntry },
  components: ExplainObjectComponents,
  options: SourceOptions,
  signal: AbortSignal,
): Promise<ComparedValues> {
  const served = servedObject({ manifest, entry }, components, options)
  if (!served) return { kind: 'notCompared', reason: notServed(manifest, components) }
  const dry = await components.dryLanes.laneOf(served.kind, signal)
  if ('risk' in dry) return { kind: 'notCompared', reason: dry.risk }
  try {
    const found = await compareValues(served, dry.lane, components, signal)
    return found.kind === 'notComparable' ? { kind: 'notCompared', reason: found.problem.text } : found
  } catch (error) {
    if (!isTooLarge(error)) throw error
    return { kind: 'notCompared', reason: tooLarge }
  }
}

/** @returns undefined: nobody serves its kind now */
function servedObject(
  { manifest, entry }: { readonly manifest: ComparedManifest; readonly entry: InventoryEntry },
  { kinds }: Pick<ExplainObjectComponents, 'kinds'>,
  options: SourceOptions,
): ServedObject | undefined {
  const kind = kinds.find(manifest.key, manifest.version)
  return (
    kind && {
      manifest,
      entry,
      kind,
      reference: referenceOf(entry, options.id),
      rules: readRules(options.drift.ignore, options.manager),
      isAdder: isAdderOf(options.drift),
      options,
    }
  )
}

function notServed({ key, version }: ComparedManifest, { kinds }: Pick<ExplainObjectComponents, 'kinds'>): string {
  if (kinds.isStale(key.group)) return `the server of the group ${key.group} does not answer now`
  return `nobody serves ${key.kind} in version ${version} of its group`
}

/** Compares the live object's values with the answer to a dry run. */
async function compareValues(
  served: ServedObject,
  dryLane: ApiLane,
  { lane, ownLane, kinds, onRead, clock }: ExplainObjectComponents,
  signal: AbortSignal,
): Promise<DryRunComparison> {
  const { manifest, kind, reference, rules, isAdder, options } = served
  const { key } = manifest
  const ignoredBy = (path: ManagedPath, managers: readonly string[]) => {
    const place = path.flatMap((element) => parseStep(element) ?? [])
    if (place.length < path.length) return undefined // somebody has written the entry by hand
    const found = managers.map((one) => ignoringRule(place, one, rules, { key }))
    return found.every((rule) => rule !== undefined) ? found[0] : undefined
  }
  const scalers = new Scalers({ lane, ownLane, kinds, manifests: [] })
  const request = { key, kind, object: marked(manifest, { inventory: options.id, owner: options.id }), reference }
  const asked = { manager: options.manager, isAdder, ignoredBy }
  const found = await explain({ lane, dryLane, scalers, clock }, request, asked, signal)
  if ('live' in found && found.live) onRead?.(key, found.live)
  return found
}

/** Judges by the values. */
async function judgeByValues(
  served: ServedObject,
  dryLane: ApiLane,
  components: ExplainObjectComponents,
  signal: AbortSignal,
): Promise<Explanation> {
  const found = await compareValues(served, dryLane, components, signal)
  if (found.kind === 'beingDeleted') return found
  const of = found.live && comparedLive(served, found.live)
  if (found.kind === 'notComparable') {
    const isChanged = found.live !== undefined && isProvenChange(served, found.live)
    return { kind: 'notCompared', of, reason: found.problem.text, isProven: isChanged }
  }
  if (!of) return absence(served)
  const { differences, again } = found
  if (found.kind === 'inOrder') return { kind: 'same', of, hasLostFields: found.hasLostFields, again }
  const listed = differences.listed.map(({ path, kind: how }) => ({ path, kind: how }))
  return { kind: found.kind, of, differences: listed, more: differences.more, by: authorOf(differences), again }
}

/** Judges by the metadata alone: another server answers for this kind, and may store a dry run. */
async function judgeByOwners(
  served: ServedObject,
  risk: string,
  lane: ApiLane,
  signal: AbortSignal,
): Promise<Explanation> {
  const { manifest, kind } = served
  const path = objectPath(kind, manifest.key)
  const answer = await lane.json('GET', path, undefined, signal, { accept: metadataOnly.object, maxBytes })
  if (answer.status === 404) return absence(served)
  if (answer.status !== 200) {
    return { kind: 'notCompared', of: undefined, reason: refusal(answer, path).text, isProven: false }
  }
  const live = answer.body as KubernetesObject
  const of = comparedLive(served, live)
  if (!isProvenChange(served, live)) return { kind: 'same', of, hasLostFields: false }
  return { kind: 'notCompared', of, reason: risk, isProven: true }
}

/** Returns the result for an object that does not exist: one that runs once has done so. */
function absence({ manifest, entry }: ServedObject): Explanation {
  return runsOnce(manifest, entry) ? { kind: 'same', of: undefined, hasLostFields: false } : { kind: 'deleted' }
}

function isProvenChange({ reference, isAdder, options: { manager } }: ServedObject, live: KubernetesObject): boolean {
  return isProven(suspicion(reference, live, { manager, isAdder }))
}

function comparedLive(
  { manifest, rules, reference, options: { manager } }: ServedObject,
  live: KubernetesObject,
): ComparedLive {
  const ignoredOf = ignoredFields(rules, { key: manifest.key }) // as a round reads it
  return {
    live: liveObjectOf(live, manager, ignoredOf),
    baseline: baselineOf(live, manager),
    ...(isRewritten(reference, live, manager) && { isRewritten: true as const }),
    holdUntil: holdUntil(live),
  }
}

/**
 * Asks with one dry run, which is answered as metadata, if an apply would change an object. Metadata alone do not show
 * items in another order, a forged entry, or a field that the schema has lost.
 *
 * @returns true also if the API server refuses that. @throws as `explainObject`
 */
export async function wouldChange(
  { manifest, entry }: { readonly manifest: ComparedManifest; readonly entry: InventoryEntry },
  { dryLanes, kinds }: Pick<ExplainObjectComponents, 'dryLanes' | 'kinds'>,
  { id, manager }: SourceOptions,
  signal: AbortSignal,
): Promise<boolean> {
  const kind = kinds.find(manifest.key, manifest.version)
  const dry = kind && (await dryLanes.laneOf(kind, signal))
  if (!dry || 'risk' in dry) return dry === undefined // another server's: its metadata are all that is compared
  const path = withQuery(objectPath(kind, manifest.key), { fieldManager: manager, force: true })
  const sent = { contentType: 'application/apply-patch+yaml', accept: metadataOnly.object, maxBytes }
  const answer = await dry.lane.json('PATCH', path, marked(manifest, { inventory: id, owner: id }), signal, sent)
  if (answer.status !== 200) return true
  return liveObjectOf(answer.body as KubernetesObject, manager).fieldsTime !== entry.time
}

/** Returns the author of the newest change that has one. */
function authorOf({ listed }: Differences): ChangeAuthor | undefined {
  const known = listed.flatMap(({ by }) => (by === 'unknown' ? [] : [by]))
  const [newest] = known.toSorted((one, other) => (one.time < other.time ? 1 : -1))
  if (!newest) return undefined
  const time = Date.parse(newest.time)
  const { manager, operation } = newest
  return { manager, operation, ...(!Number.isNaN(time) && { time }) }
}
