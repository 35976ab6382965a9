import { hash } from 'node:crypto'
import { at, entryAt, isBeingDeleted, type KubernetesObject, numberAt, textAt } from '../../../../kubernetes/object.ts'
import {
  entriesOf,
  type FieldSet,
  fieldsHash,
  type ManagedEntry,
  ownEntry,
  scaledPath,
  union,
} from '../live/managed-fields.ts'
import { pathText } from '../live/managed-path.ts'
import { isNestedTooDeeply } from '../live/nesting.ts'
import { entriesOfOthers, isOutside, isOwn, OwnedFields, onlyAgrees } from '../live/owned-fields.ts'
import { digestAnnotation, inventoryLabel, ownerAnnotation } from '../manifests/annotations.ts'

/** State of an object right after its last apply. */
export interface Reference {
  /** empty: not known */
  readonly uid: string
  /** id of the source: its mark in the inventory label and in the owner annotation */
  readonly owner: string
  /** of the manifest applied last; empty: not known */
  readonly digest: string
  /** hash of the fields of the source's Apply entry; empty: not known */
  readonly fields: string
  /** time of that entry, as the API server wrote it; empty: the entry had none; absent: not known */
  readonly time?: string | undefined
  /** `metadata.generation`; 0: the kind has none; absent: not known */
  readonly generation?: number | undefined
}

/**
 * Reason for which an object is compared.
 *
 * - `uid`: it was deleted and made again
 * - `mark`: the label or an annotation of the source is gone, or has another value
 * - `hash`: the source's manager owns other fields than after its apply
 * - `scaled`: as `hash`, but `scale` has taken the number of replicas, and nothing else was taken
 * - `replicas`: a manager of `added_by` has set the number of replicas through `scale`, and Git does not set it
 * - `time`: its entry has another time
 * - `erased`: nobody owns a field any more
 * - `added`: a manager of `added_by` has set fields that nobody else owns
 * - `order`: the generation moved, and no entry but the status did: items may be in another order. An autoscaler moves it
 *   too: `scale` writes entries without a time, and none where nobody owns the number of replicas
 */
export type SuspectReason = 'uid' | 'mark' | 'hash' | 'scaled' | 'replicas' | 'time' | 'erased' | 'added' | 'order'

/** Reasons that prove a change by themselves: it is reported even if the object cannot be compared. */
const proofs: ReadonlySet<SuspectReason> = new Set(['uid', 'mark', 'hash', 'scaled', 'time'])

/** Reasons that `scale` explains. */
const ofScale: ReadonlySet<SuspectReason> = new Set(['scaled', 'replicas', 'order'])

/** State of an object's metadata, in a fixed size. Later metadata are compared with it. */
export interface Baseline {
  readonly generation: number
  /** hash of uid, marks and the source's entry */
  readonly own: string
  /** hash of the entries of others, without the status */
  readonly others: string
}

/**
 * Verdict on an object by its metadata.
 *
 * - `unchanged`: nothing moved since the baseline but the status, or labels and annotations of others. The last verdict
 *   stays, and a comparison would give the result that the last one gave
 * - `no`: nothing asks for a comparison. An object that is known as drifted is compared all the same: it may be in order
 *   again
 * - `suspect`: it is to be compared
 * - `gone`: it does not exist
 * - `beingDeleted`: it exists until its finalizers are removed
 */
export type Suspicion =
  | { readonly kind: 'gone' | 'beingDeleted' | 'unchanged' }
  | { readonly kind: 'no'; readonly baseline: Baseline }
  /** `reasons`: at least one */
  | { readonly kind: 'suspect'; readonly reasons: readonly SuspectReason[]; readonly baseline: Baseline }

export interface SuspectOptions {
  /** field manager of the source */
  readonly manager: string
  /** true for a manager that `added_by` matches */
  readonly isAdder: (manager: string) => boolean
  /** of the metadata that were judged or compared last, with this reference; absent: none */
  readonly baseline?: Baseline | undefined
}

/**
 * Judges by an object's metadata if it may differ from Git. It makes no call.
 *
 * @param object - the object, or a PartialObjectMetadata with managedFields; undefined: it does not exist
 */
export function suspicion(
  reference: Reference,
  object: KubernetesObject | undefined,
  { manager, isAdder, baseline: last }: SuspectOptions,
): Suspicion {
  if (!object) return { kind: 'gone' }
  if (isBeingDeleted(object)) return { kind: 'beingDeleted' }
  const found = ownershipOf(object, manager)
  const baseline = baselineFrom(found)
  if (last && last.own === baseline.own && last.others === baseline.others) {
    if (last.generation === baseline.generation) return { kind: 'unchanged' }
  }
  const reasons = reasonsOfOwn(reference, found)
  // without its own fields the source cannot say which fields of others are added
  const hasOwn = !reasons.includes('hash') && !reasons.includes('erased')
  if (hasOwn) reasons.push(...reasonsOfAdded(found, addersOf(found.entries, { manager, isAdder })))
  if (last ? isReordered(last, baseline) : mayBeReordered(reference, found)) reasons.push('order')
  return reasons.length === 0 ? { kind: 'no', baseline } : { kind: 'suspect', reasons, baseline }
}

/**
 * True if `scale` alone explains the reasons. Before a comparison the caller asks `Scalers`: an object that an
 * autoscaler targets is not compared for such a reason, so that each scaling makes no calls.
 */
export function mayBeScaled(found: Suspicion): boolean {
  return found.kind === 'suspect' && found.reasons.every((reason) => ofScale.has(reason))
}

/** True if the metadata prove a change, also where the object cannot be compared. */
export function isProven(found: Suspicion): boolean {
  return found.kind === 'suspect' && found.reasons.some((reason) => proofs.has(reason))
}

/**
 * True if the source's manager has written the object since its last apply, as a leader of before does that was frozen.
 * Others move neither the time of its entry nor a digest that it still owns.
 */
export function isRewritten({ digest, time }: Reference, object: KubernetesObject, manager: string): boolean {
  const { own, digest: live } = ownershipOf(object, manager)
  if (!own) return false
  if (time !== undefined && textAt(own, 'time') !== time) return true
  const annotations = at(own.fieldsV1, 'f:metadata.f:annotations') ?? {}
  return digest !== '' && live !== digest && Object.hasOwn(annotations, `f:${digestAnnotation}`)
}

/** Returns the state of an object's metadata, as a baseline for later metadata. @param manager - the source's */
export function baselineOf(object: KubernetesObject, manager: string): Baseline {
  return baselineFrom(ownershipOf(object, manager))
}

/** Returns the entries of managers that `added_by` matches, without the source's own. */
export function addersOf(
  entries: readonly ManagedEntry[],
  { manager, isAdder }: Pick<SuspectOptions, 'manager' | 'isAdder'>,
): ReadonlySet<ManagedEntry> {
  return new Set(entries.filter((entry) => !isOwn(entry, manager) && isAdder(textAt(entry, 'manager'))))
}

/** Returns a hash of entries in any order. */
export function entriesHash(entries: readonly ManagedEntry[]): string {
  const texts = entries.map(({ manager, operation, apiVersion, subresource, time, fieldsV1 }) =>
    JSON.stringify([manager, operation, apiVersion, subresource ?? '', time ?? '', hashable(fieldsV1)]),
  )
  return shortHash(texts.sort())
}

/** Marks and owners of one object. */
interface Ownership {
  readonly uid: string
  readonly generation: number
  /** of the inventory label */
  readonly label: string
  /** of the owner annotation */
  readonly owner: string
  readonly digest: string
  readonly entries: readonly ManagedEntry[]
  /** entries of others, as `entriesOfOthers` returns them */
  readonly others: readonly ManagedEntry[]
  /** the source's entry */
  readonly own: ManagedEntry | undefined
}

function ownershipOf(object: KubernetesObject, manager: string): Ownership {
  const entries = entriesOf(object)
  const annotation = (name: string) => entryAt(object, 'metadata.annotations', name)
  return {
    uid: textAt(object, 'metadata.uid'),
    generation: numberAt(object, 'metadata.generation') ?? 0,
    label: entryAt(object, 'metadata.labels', inventoryLabel),
    owner: annotation(ownerAnnotation),
    digest: annotation(digestAnnotation),
    entries,
    others: entriesOfOthers(entries, manager),
    own: ownEntry(entries, manager),
  }
}

function baselineFrom({ uid, generation, label, owner, digest, own, others }: Ownership): Baseline {
  const ofOwn = own ? [textAt(own, 'time'), hashable(own.fieldsV1)] : []
  return { generation, own: shortHash([uid, label, owner, digest, ...ofOwn]), others: entriesHash(others) }
}

function reasonsOfOwn(reference: Reference, found: Ownership): SuspectReason[] {
  const { uid, owner, digest, fields, time } = reference
  const { own } = found
  const reasons: SuspectReason[] = []
  if (uid !== '' && found.uid !== uid) reasons.push('uid')
  const isMarked = found.label === owner && found.owner === owner && (digest === '' || found.digest === digest)
  if (!isMarked) reasons.push('mark')
  if (found.entries.length === 0) return [...reasons, 'erased']
  if (fields !== '' && !hasFields(own, fields)) reasons.push(isOnlyScaled(found, fields) ? 'scaled' : 'hash')
  if (time !== undefined && own && textAt(own, 'time') !== time) reasons.push('time')
  return reasons
}

/** @param fields - `fieldsHash` of the expected fields */
function hasFields(own: Pick<ManagedEntry, 'fieldsV1'> | undefined, fields: string): boolean {
  return own !== undefined && !isNestedTooDeeply(own.fieldsV1) && fieldsHash(own.fieldsV1) === fields
}

/** True if `scale` took the number of replicas from the source, and nothing else was taken. */
function isOnlyScaled({ own, entries }: Ownership, fields: string): boolean {
  const scaled = scaledPath(entries)
  if (!own || scaled === undefined || isNestedTooDeeply(own.fieldsV1)) return false
  const replicas = scaled.split('.').reduceRight<FieldSet>((inner, name) => ({ [`f:${name}`]: inner }), {})
  return fieldsHash(union(own.fieldsV1, replicas)) === fields
}

function reasonsOfAdded({ entries }: Ownership, adders: ReadonlySet<ManagedEntry>): SuspectReason[] {
  const mayAdd = (entry: ManagedEntry) =>
    !onlyAgrees(entry) && Object.keys(entry.fieldsV1).some((name) => !isOutside([], name))
  if (![...adders].some(mayAdd)) return []
  const replicas = `.${scaledPath(entries)}`
  const found = new OwnedFields(entries).onlyOf(adders).map((path) => pathText(path) === replicas)
  return [...(found.includes(false) ? ['added' as const] : []), ...(found.includes(true) ? ['replicas' as const] : [])]
}

/** True if the generation moved since the baseline, and no entry but the status did. */
function isReordered(last: Baseline, now: Baseline): boolean {
  return last.generation !== now.generation && last.own === now.own && last.others === now.others
}

/**
 * True if the generation moved since the last apply, and no entry but the status has. An entry that is not older than
 * the source's own may have moved it.
 */
function mayBeReordered({ generation, time }: Reference, found: Ownership): boolean {
  if (generation === undefined || !time || found.generation === generation) return false
  return found.others.every((entry) => textAt(entry, 'time') < time) // of a status it is empty
}

/** Returns fields to hash. Only somebody who forges an entry writes fields that are nested too deeply. */
function hashable(fields: FieldSet): unknown {
  return isNestedTooDeeply(fields) ? 'nested too deeply' : fields
}

/**
 * Returns 64 bits of a hash, in hex: each of 10,000 objects has two of them in memory. A slice of the whole hash would
 * keep all of it.
 */
function shortHash(value: readonly unknown[]): string {
  return hash('sha256', JSON.stringify(value), 'buffer').toString('hex', 0, 8)
}
