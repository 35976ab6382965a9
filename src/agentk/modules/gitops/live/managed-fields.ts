import { createHash } from 'node:crypto'
import { at, type KubernetesObject, listAt, textAt } from '../../../../kubernetes/object.ts'

/** FieldsV1: names of fields, items and keys to what of them is owned. `{}` and `.`: the thing itself. */
export interface FieldSet {
  readonly [name: string]: FieldSet
}

/** Of `metadata.managedFields`, with whatever else stands there. */
export interface ManagedEntry extends KubernetesObject {
  readonly fieldsV1: FieldSet
}

/** The API server's name for whoever wrote an object before its first apply, or before its owners were forgotten. */
export const beforeFirstApply = 'before-first-apply'

export function entriesOf(object: unknown): readonly ManagedEntry[] {
  return listAt(object, 'metadata.managedFields').map((entry) => ({ ...entry, fieldsV1: fieldsOf(entry) }))
}

/** What it has applied to the object itself. */
export function ownEntry(entries: readonly ManagedEntry[], manager: string): ManagedEntry | undefined {
  return entries.find((entry) => isOf(entry, manager) && entry.operation === 'Apply')
}

/** Who owns fields of the object itself, in whatever way. */
export function managersOf(entries: readonly ManagedEntry[]): readonly string[] {
  return [...new Set(entries.filter(isOfObject).map((entry) => textAt(entry, 'manager')))]
}

/** Of a set of fields, whatever their order: hex. */
export function fieldsHash(fields: FieldSet): string {
  return createHash('sha256').update(sortedJson(fields)).digest('hex').slice(0, 32)
}

/**
 * All that `from` own of the object itself becomes `manager`'s: what its next apply leaves out goes.
 *
 * @returns undefined: they own nothing
 */
export function takenOver(
  entries: readonly ManagedEntry[],
  { manager, from }: { manager: string; from: ReadonlySet<string> },
): readonly ManagedEntry[] | undefined {
  const taken = entries.filter((entry) => isOfObject(entry) && from.has(textAt(entry, 'manager')))
  const [first] = taken
  if (!first) return undefined
  const own = ownEntry(entries, manager)
  const fieldsV1 = taken.reduce((all, entry) => union(all, entry.fieldsV1), own?.fieldsV1 ?? {})
  const { time, apiVersion } = own ?? first
  const merged = { manager, operation: 'Apply', apiVersion, time, fieldsType: 'FieldsV1', fieldsV1 }
  return [...entries.filter((entry) => entry !== own && !taken.includes(entry)), merged]
}

/**
 * `before-first-apply` owns all that was there: it loses what is `manager`'s by now, and keeps what others have set.
 *
 * @returns undefined: it owns nothing of it
 */
export function relieved(entries: readonly ManagedEntry[], manager: string): readonly ManagedEntry[] | undefined {
  const own = ownEntry(entries, manager)
  const before = entries.find((entry) => isOf(entry, beforeFirstApply))
  if (!own || !before) return undefined
  const fieldsV1 = without(before.fieldsV1, own.fieldsV1)
  if (sortedJson(fieldsV1) === sortedJson(before.fieldsV1)) return undefined
  const others = entries.filter((entry) => entry !== before)
  return Object.keys(fieldsV1).length === 0 ? others : [...others, { ...before, fieldsV1 }]
}

export const usualReplicasPath = 'spec.replicas'

/** Where a number was set through the subresource `scale`: `spec.replicas`. @returns undefined: nobody has */
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
export function ownsField({ fieldsV1 }: ManagedEntry, path: string): boolean {
  return at(fieldsV1, fieldPath(path)) !== undefined
}

function fieldPath(path: string): string {
  return path
    .split('.')
    .map((name) => `f:${name}`)
    .join('.')
}

/**
 * `manager`'s entry without the number of replicas: it stays when its next apply leaves it out.
 *
 * @param path - where the number stands. @returns undefined: it does not own it
 */
export function withoutReplicas(
  entries: readonly ManagedEntry[],
  manager: string,
  path: string,
): readonly ManagedEntry[] | undefined {
  const own = ownEntry(entries, manager)
  if (!own || !ownsField(own, path)) return undefined
  // nor the maps around it, which would go with all that is in them
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

export function without(fields: FieldSet, other: FieldSet): FieldSet {
  const left: [string, FieldSet][] = []
  for (const [name, all] of Object.entries(fields)) {
    const removed = Object.hasOwn(other, name) ? other[name] : undefined
    if (!removed) left.push([name, all])
    else {
      const rest = without(inside(all), inside(removed))
      const keepsSelf = hasSelf(all) && !hasSelf(removed)
      if (keepsSelf || Object.keys(rest).length > 0) left.push([name, withSelf(rest, keepsSelf)])
    }
  }
  return Object.fromEntries(left)
}

function hasSelf(fields: FieldSet): boolean {
  return Object.hasOwn(fields, '.') || Object.keys(fields).length === 0
}

function inside(fields: FieldSet): FieldSet {
  const { '.': _self, ...names } = fields
  return names
}

function withSelf(names: FieldSet, self: boolean): FieldSet {
  return self && Object.keys(names).length > 0 ? { '.': {}, ...names } : names
}

function isOfObject(entry: ManagedEntry): boolean {
  return textAt(entry, 'subresource') === ''
}

function isOf(entry: ManagedEntry, manager: string): boolean {
  return isOfObject(entry) && entry.manager === manager
}

function fieldsOf(entry: KubernetesObject): FieldSet {
  const fields = at(entry, 'fieldsV1')
  return typeof fields === 'object' && fields !== null ? (fields as FieldSet) : {}
}

function sortedJson(fields: FieldSet): string {
  const inner = Object.keys(fields)
    .sort()
    .map((name) => `${JSON.stringify(name)}:${sortedJson(fields[name] as FieldSet)}`)
  return `{${inner.join()}}`
}
