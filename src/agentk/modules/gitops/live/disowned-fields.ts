import type { KubernetesObject } from '../../../../kubernetes/object.ts'
import { textAt } from '../../../../kubernetes/object.ts'
import {
  type FieldSet,
  type IgnoredOf,
  isEmpty,
  type ManagedEntry,
  nothingIgnored,
  ownEntry,
  ownsField,
  unionOf,
  without,
} from './managed-fields.ts'
import { FieldReader } from './managed-path.ts'

/**
 * Fields of a live object that nobody has applied: the API server's defaults, and changes that people made in place.
 * They are in the way if the API server refuses a manifest because of them.
 */

/** Managers of tools with which people change objects in place: kubectl, k9s, Headlamp, Lens or a browser. */
const byHand = /^(?:kubectl|k9s|headlamp|lens|Mozilla|dashboard|node-fetch|curl|okhttp)/i

interface Disowned {
  readonly entries: readonly ManagedEntry[]
  /** no field is taken over */
  readonly isEmpty: boolean
  readonly from: readonly string[]
  readonly others: readonly string[]
  readonly fields: readonly string[]
}

/**
 * Adds the fields in the way, below some places, to `manager`'s entry. Ignored fields stay with their managers.
 *
 * @param object - whole
 * @param places - fields as the API server names them, such as `spec.strategy.rollingUpdate`, `spec.ports[1].name`
 * @returns undefined: nothing is in the way. `from`: managers that set fields by hand; `others`: managers that keep
 * their fields there; `fields`: their paths
 */
export function withDisowned(
  object: KubernetesObject,
  entries: readonly ManagedEntry[],
  {
    manager,
    places,
    ignoredOf = nothingIgnored,
  }: {
    readonly manager: string
    readonly places: readonly string[]
    readonly ignoredOf?: IgnoredOf | undefined
  },
): Disowned | undefined {
  const own = ownEntry(entries, manager)
  if (!own) return undefined
  const hands = new Set(entries.filter(isByHand))
  const all = unionOf(entries.map(({ fieldsV1 }) => fieldsV1))
  const parts: FieldSet[] = []
  const reader = new FieldReader()
  const [from, others, fields] = [new Set<string>(), new Set<string>(), new Set<string>()]
  for (const place of new Set(places)) {
    const path = listOrParent(place)
    if (path.length === 0) continue
    for (const entry of entries) {
      if (entry === own || textAt(entry, 'subresource') !== '') continue
      const open = without(entry.fieldsV1, ignoredOf(entry))
      const below = without(fieldsAt(open, path), fieldsAt(own.fieldsV1, path))
      if (isEmpty(below)) continue
      const isHand = hands.has(entry)
      // others may own other fields of a map
      if (!isHand && !place.includes('[') && !ownsField({ fieldsV1: open }, place)) continue
      const managers = isHand ? from : others
      managers.add(textAt(entry, 'manager'))
      fields.add(path.join('.'))
      if (isHand) parts.push(inPath(below, path))
    }
    const value = path.reduce<unknown>((found, name) => (found as KubernetesObject | undefined)?.[name], object)
    parts.push(inPath(unowned(value, fieldsAt(all, path), reader), path))
  }
  const taken = unionOf(parts)
  const isNothing = isEmpty(without(taken, own.fieldsV1))
  if (isNothing && others.size === 0) return undefined
  const rest = entries.flatMap((entry) => {
    if (entry === own) return []
    if (!hands.has(entry)) return [entry]
    const fieldsV1 = without(entry.fieldsV1, without(taken, ignoredOf(entry)))
    return isEmpty(fieldsV1) ? [] : [{ ...entry, fieldsV1 }]
  })
  const found = { isEmpty: isNothing, from: [...from], others: [...others], fields: [...fields] }
  return { entries: [...rest, { ...own, fieldsV1: unionOf([own.fieldsV1, taken]) }], ...found }
}

function isByHand(entry: ManagedEntry): boolean {
  return textAt(entry, 'subresource') === '' && entry.operation === 'Update' && byHand.test(textAt(entry, 'manager'))
}

/** Returns the path of the list that contains the place, or of the map around it. */
function listOrParent(place: string): readonly string[] {
  const inList = place.indexOf('[')
  return inList >= 0 ? place.slice(0, inList).split('.') : place.split('.').slice(0, -1)
}

function fieldsAt(fields: FieldSet, path: readonly string[]): FieldSet {
  return path.reduce<FieldSet>((found, name) => found[`f:${name}`] ?? {}, fields)
}

function inPath(fields: FieldSet, path: readonly string[]): FieldSet {
  if (isEmpty(fields)) return {}
  return path.reduceRight<FieldSet>((inner, name) => ({ [`f:${name}`]: inner }), fields)
}

/** @param owned - fields that anybody owns. @returns the fields of a value that nobody owns */
function unowned(value: unknown, owned: FieldSet, reader: FieldReader): FieldSet {
  const found: Record<string, FieldSet> = {}
  const add = (name: string, item: unknown) => {
    const known = owned[name]
    const rest = known ? (isEmpty(known) ? {} : unowned(item, known, reader)) : whole(item)
    if (!known || !isEmpty(rest)) found[name] = rest
  }
  if (Array.isArray(value)) {
    for (const name of Object.keys(owned).filter((one) => one.startsWith('k:'))) {
      const [item] = reader.children(value, name)
      if (item !== undefined) add(name, item)
    }
  } else if (typeof value === 'object' && value !== null) {
    for (const [name, item] of Object.entries(value)) add(`f:${name}`, item)
  }
  return found
}

/** Returns all fields of a map; any other value is one field. */
function whole(value: unknown): FieldSet {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return {}
  const inner = Object.entries(value).map(([name, item]) => [`f:${name}`, whole(item)] as const)
  return inner.length === 0 ? {} : { '.': {}, ...Object.fromEntries(inner) }
}
