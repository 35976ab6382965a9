import { createHash } from 'node:crypto'
import { at, type KubernetesObject, listAt, textAt } from '../../../../kubernetes/object.ts'
import { isNestedTooDeeply } from './nesting.ts'

/** FieldsV1: the owned parts of fields, items and keys, by name. `{}` and `.`: the field itself. */
export interface FieldSet {
  readonly [name: string]: FieldSet
}

/** Entry of `metadata.managedFields`, with its other fields. */
export interface ManagedEntry extends KubernetesObject {
  readonly fieldsV1: FieldSet
}

/** Returns the fields of an entry that rules of the source leave to its manager. */
export type IgnoredOf = (entry: ManagedEntry) => FieldSet

/** There are no such rules. */
export const nothingIgnored: IgnoredOf = () => ({})

/** Manager that the API server names for writes before the first apply, or before the owners were removed. */
export const beforeFirstApply = 'before-first-apply'

export function entriesOf(object: unknown): readonly ManagedEntry[] {
  return listAt(object, 'metadata.managedFields').map((entry) => ({ ...entry, fieldsV1: fieldsOf(entry) }))
}

/** Returns the fields that the manager has applied to the object itself. */
export function ownEntry(entries: readonly ManagedEntry[], manager: string): ManagedEntry | undefined {
  return entries.find((entry) => isOf(entry, manager) && entry.operation === 'Apply')
}

/** True if another manager has an entry as new as this one, or without a time, for more than the status. */
export function haveWrittenSince(entries: readonly ManagedEntry[], own: ManagedEntry): boolean {
  const since = textAt(own, 'time')
  return entries.some((entry) => {
    if (entry === own || textAt(entry, 'subresource') === 'status') return false
    const time = textAt(entry, 'time')
    return time === '' || time >= since // RFC 3339 in UTC, whole seconds: texts are in the order of time
  })
}

/** Returns all managers that own fields of the object itself. */
export function managersOf(entries: readonly ManagedEntry[]): readonly string[] {
  return [...new Set(entries.filter(isOfObject).map((entry) => textAt(entry, 'manager')))]
}

/** Returns the hash of a set of fields in any order: hex. */
export function fieldsHash(fields: FieldSet): string {
  return createHash('sha256').update(sortedJson(fields)).digest().toString('hex', 0, 16) // a slice would keep the rest
}

/**
 * Gives all fields of the object itself that `from` own to `manager`: its next apply removes those that it leaves out.
 * Ignored fields stay with their managers.
 *
 * @returns undefined: they own nothing else
 */
export function takenOver(
  entries: readonly ManagedEntry[],
  {
    manager,
    from,
    ignoredOf = nothingIgnored,
  }: { manager: string; from: ReadonlySet<string>; ignoredOf?: IgnoredOf | undefined },
): readonly ManagedEntry[] | undefined {
  const own = ownEntry(entries, manager)
  const sets = [own?.fieldsV1 ?? {}]
  let first: ManagedEntry | undefined
  const rest: ManagedEntry[] = []
  for (const entry of entries) {
    if (entry === own) continue
    const ignored = ignoredOf(entry)
    const taken = without(entry.fieldsV1, ignored)
    const isTaken = isOfObject(entry) && from.has(textAt(entry, 'manager'))
    if (!isTaken || (isEmpty(taken) && !isEmpty(ignored))) rest.push(entry)
    else {
      first ??= entry
      sets.push(taken)
      if (!isEmpty(ignored)) rest.push({ ...entry, fieldsV1: ignored })
    }
  }
  if (!first) return undefined
  const { time, apiVersion } = own ?? first
  const fieldsV1 = unionOf(sets)
  return [...rest, { manager, operation: 'Apply', apiVersion, time, fieldsType: 'FieldsV1', fieldsV1 }]
}

/**
 * Returns the ignored fields that other managers own, and `manager` does not. No source applies a status, so none is
 * among them.
 */
export function leftToOthers(entries: readonly ManagedEntry[], manager: string, ignoredOf: IgnoredOf): FieldSet {
  const own = ownEntry(entries, manager)
  const others = entries.filter((entry) => entry !== own)
  const { 'f:status': _status, ...all } = unionOf(others.map(ignoredOf))
  return without(all, own?.fieldsV1 ?? {})
}

/**
 * Removes the fields of `manager` from `before-first-apply`, which owns all earlier fields. It keeps the others.
 *
 * @returns undefined: there is nothing to remove
 */
export function relieved(entries: readonly ManagedEntry[], manager: string): readonly ManagedEntry[] | undefined {
  const own = ownEntry(entries, manager)
  const before = entries.find((entry) => isOf(entry, beforeFirstApply))
  if (!own || !before) return undefined
  const fieldsV1 = without(before.fieldsV1, own.fieldsV1)
  if (sortedJson(fieldsV1) === sortedJson(before.fieldsV1)) return undefined
  const others = entries.filter((entry) => entry !== before)
  return isEmpty(fieldsV1) ? others : [...others, { ...before, fieldsV1 }]
}

export const usualReplicasPath = 'spec.replicas'

/** Returns the path of the number that the subresource `scale` has set: `spec.replicas`. @returns undefined: none */
export function scaledPath(entries: readonly ManagedEntry[]): string | undefined {
  const scaled = entries.find((entry) => textAt(entry, 'subresource') === 'scale')
  const names: string[] = []
  for (let fields = scaled?.fieldsV1; fields; ) {
    const [name] = Object.keys(fields).filter((one) => one.startsWith('f:'))
    if (name === undefined) break
    names.push(name.slice(2))
    fields = fields[name]
  }
  return names.length > 1 ? names.join('.') : undefined
}

/** @param path - `spec.replicas` */
export function ownsField({ fieldsV1 }: Pick<ManagedEntry, 'fieldsV1'>, path: string): boolean {
  return at(fieldsV1, fieldPath(path)) !== undefined
}

function fieldPath(path: string): string {
  return path
    .split('.')
    .map((name) => `f:${name}`)
    .join('.')
}

/**
 * Removes the number of replicas from `manager`'s entry, so that an apply without it leaves it as it is.
 *
 * @param path - of the number. @returns undefined: `manager` does not own it
 */
export function withoutReplicas(
  entries: readonly ManagedEntry[],
  manager: string,
  path: string,
): readonly ManagedEntry[] | undefined {
  const own = ownEntry(entries, manager)
  if (!own || !ownsField(own, path)) return undefined
  // without the maps around it too: an apply would remove them with all their fields
  const number = path.split('.').reduceRight<FieldSet>((inner, name) => ({ '.': {}, [`f:${name}`]: inner }), {})
  const fieldsV1 = without(own.fieldsV1, number)
  return [...entries.filter((entry) => entry !== own), { ...own, fieldsV1 }]
}

export function union(one: FieldSet, other: FieldSet): FieldSet {
  const all = new Map(Object.entries(one))
  for (const [name, fields] of Object.entries(other)) {
    const known = all.get(name)
    all.set(name, known ? withSelf(union(inside(known), inside(fields)), hasSelf(known) || hasSelf(fields)) : fields)
  }
  return Object.fromEntries(all)
}

/**
 * Returns the union of sets, pair by pair: each further one would cost all before it. Anybody who may write an object
 * can forge thousands of entries.
 */
export function unionOf(sets: Iterable<FieldSet>): FieldSet {
  let all = [...sets]
  while (all.length > 1) {
    const pairs = Array.from({ length: Math.ceil(all.length / 2) }, (_, i) => all.slice(2 * i, 2 * i + 2))
    all = pairs.map(([one = {}, other]) => (other ? union(one, other) : one))
  }
  return all[0] ?? {}
}

export function without(fields: FieldSet, other: FieldSet): FieldSet {
  const left: [string, FieldSet][] = []
  for (const [name, all] of Object.entries(fields)) {
    const removed = Object.hasOwn(other, name) ? other[name] : undefined
    if (!removed) left.push([name, all])
    else {
      const rest = without(inside(all), inside(removed))
      const keepsSelf = hasSelf(all) && !hasSelf(removed)
      if (keepsSelf || !isEmpty(rest)) left.push([name, withSelf(rest, keepsSelf)])
    }
  }
  return Object.fromEntries(left)
}

export function isEmpty(fields: FieldSet): boolean {
  return Object.keys(fields).length === 0
}

function hasSelf(fields: FieldSet): boolean {
  return Object.hasOwn(fields, '.') || isEmpty(fields)
}

function inside(fields: FieldSet): FieldSet {
  const { '.': _self, ...names } = fields
  return names
}

function withSelf(names: FieldSet, self: boolean): FieldSet {
  return self && !isEmpty(names) ? { '.': {}, ...names } : names
}

function isOfObject(entry: ManagedEntry): boolean {
  return textAt(entry, 'subresource') === ''
}

function isOf(entry: ManagedEntry, manager: string): boolean {
  return isOfObject(entry) && entry.manager === manager
}

/**
 * Returns no fields of an entry that is nested too deeply, which anybody who may write an object can forge. A server
 * behind an APIService may send values that are no sets: these count as fields without others in them.
 */
function fieldsOf(entry: KubernetesObject): FieldSet {
  const fields = at(entry, 'fieldsV1')
  if (!isMap(fields) || isNestedTooDeeply(fields)) return {}
  return isFieldSet(fields) ? fields : repaired(fields)
}

function isFieldSet(value: unknown): value is FieldSet {
  return isMap(value) && Object.values(value).every(isFieldSet)
}

function repaired(value: unknown): FieldSet {
  if (!isMap(value)) return {}
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, repaired(inner)]))
}

function isMap(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function sortedJson(fields: FieldSet): string {
  const inner = Object.keys(fields)
    .sort()
    .map((name) => `${JSON.stringify(name)}:${sortedJson(fields[name] as FieldSet)}`)
  return `{${inner.join()}}`
}
