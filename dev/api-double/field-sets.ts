import { isDeepStrictEqual } from 'node:util'
import { asRecord } from './kube-object.ts'

/** FieldsV1 of kinds that have no lists with keys: the owned parts by name of field; `{}`: the whole field. */
export interface FieldSet {
  readonly [name: string]: FieldSet
}

/** Fields that have no owner: an object's identity, and those of the server. */
const unowned = {
  object: new Set(['apiVersion', 'kind']),
  metadata: new Set([
    'name',
    'namespace',
    'uid',
    'resourceVersion',
    'creationTimestamp',
    'generation',
    'managedFields',
  ]),
}

/** Returns all fields of `object`. */
export function fieldsOf(object: unknown): FieldSet {
  const { metadata, ...rest } = asRecord(object) ?? {}
  const fields = { ...inside(metadata, unowned.metadata) }
  return {
    ...(Object.keys(fields).length > 0 ? { 'f:metadata': fields } : {}),
    ...inside(rest, unowned.object),
  }
}

function inside(value: unknown, without: ReadonlySet<string> = new Set()): FieldSet {
  const entries = Object.entries(asRecord(value) ?? {}).filter(([name]) => !without.has(name))
  return Object.fromEntries(entries.map(([name, each]) => [`f:${name}`, inside(each)]))
}

/** Returns `object` without the fields of `gone` that are not in `kept`. */
export function withoutFields(object: unknown, gone: FieldSet, kept: FieldSet): unknown {
  const record = asRecord(object)
  if (!record) return object
  const left = Object.entries(record).flatMap(([name, value]) => {
    const [lost, held] = [gone[`f:${name}`], kept[`f:${name}`]]
    if (!lost) return [[name, value]]
    if (Object.keys(lost).length === 0) return held ? [[name, value]] : []
    const rest = withoutFields(value, lost, held ?? {})
    return Object.keys(asRecord(rest) ?? {}).length > 0 ? [[name, rest]] : []
  })
  return Object.fromEntries(left)
}

/** Returns the fields that differ between two objects, also those that only one of them has. */
export function changedFields(one: unknown, other: unknown): FieldSet {
  const [before, after] = [asRecord(one) ?? {}, asRecord(other) ?? {}]
  return differing(
    { ...before, metadata: undefined },
    { ...after, metadata: undefined },
    unowned.object,
    differing(asRecord(before.metadata) ?? {}, asRecord(after.metadata) ?? {}, unowned.metadata),
  )
}

function differing(
  before: Record<string, unknown>,
  after: Record<string, unknown>,
  without: ReadonlySet<string>,
  metadata: FieldSet = {},
): FieldSet {
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  const found = [...names].flatMap((name): [string, FieldSet][] => {
    if (without.has(name) || isDeepStrictEqual(before[name], after[name])) return []
    const [one, other] = [asRecord(before[name]), asRecord(after[name])]
    return [[`f:${name}`, one && other ? differing(one, other, new Set()) : {}]]
  })
  return { ...(Object.keys(metadata).length > 0 ? { 'f:metadata': metadata } : {}), ...Object.fromEntries(found) }
}

/** Returns the fields of a set that an object has. */
export function presentFields(fields: FieldSet, object: unknown): FieldSet {
  const record = asRecord(object) ?? {}
  const found = Object.entries(fields).flatMap(([name, inner]): [string, FieldSet][] => {
    const value = record[name.slice(2)]
    if (value === undefined) return []
    return [[name, Object.keys(inner).length > 0 ? presentFields(inner, value) : inner]]
  })
  return Object.fromEntries(found)
}

export function joinedFields(one: FieldSet, other: FieldSet): FieldSet {
  const all = Object.entries(other).map(([name, inner]): [string, FieldSet] => [
    name,
    one[name] ? joinedFields(one[name], inner) : inner,
  ])
  return { ...one, ...Object.fromEntries(all) }
}

/** Returns `fields` without those of `gone`: a field of which all is gone has no owner any more. */
export function subtractFields(fields: FieldSet, gone: FieldSet): FieldSet {
  const left = Object.entries(fields).flatMap(([name, inner]): [string, FieldSet][] => {
    const lost = gone[name]
    if (!lost) return [[name, inner]]
    if (Object.keys(lost).length === 0 || Object.keys(inner).length === 0) return []
    const rest = subtractFields(inner, lost)
    return Object.keys(rest).length > 0 ? [[name, rest]] : []
  })
  return Object.fromEntries(left)
}
