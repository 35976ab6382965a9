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
