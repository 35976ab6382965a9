import { asRecord } from './kube-object.ts'

/** FieldsV1, of kinds that have no lists with keys: names of fields to what of them is owned; `{}`: the whole of it. */
export interface FieldSet {
  readonly [name: string]: FieldSet
}

/** What of an object is its name, or the server's: nobody owns it. */
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

/** All that `object` says. */
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

/** `object` without what `gone` has and `kept` has not. */
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
