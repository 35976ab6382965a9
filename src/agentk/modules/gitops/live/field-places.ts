import { isDeepStrictEqual } from 'node:util'
import { field } from '../../../../kubernetes/object.ts'
import { type ItemKey, type ItemPart, readItem } from '../../../../proto/gitops/field-path.ts'
import type { ObjectTree } from '../manifests/manifest.ts'

/** A name of FieldsV1, parsed: a field of a map, or an item of a list. */
export type PlaceStep = { readonly kind: 'field'; readonly name: string } | ItemPart

/** Way from the root of an object to one of its fields. */
export type FieldPlace = readonly PlaceStep[]

/** Parses a name of FieldsV1: `f:spec`, `k:{"name":"app"}`, `v:"a"`, `i:0`. @returns undefined: it is none of these */
export function parseStep(name: string): PlaceStep | undefined {
  const [kind, text] = [name.slice(0, 2), name.slice(2)]
  if (kind === 'f:') return { kind: 'field', name: text }
  if (kind !== 'k:' && kind !== 'v:' && kind !== 'i:') return undefined
  try {
    const value: unknown = JSON.parse(text)
    if (kind === 'v:') return { kind: 'value', value: value as ItemKey[string] }
    if (kind === 'i:') return Number.isSafeInteger(value) ? { kind: 'index', index: value as number } : undefined
    return isMap(value) ? { kind: 'key', key: value as ItemKey } : undefined
  } catch {
    return undefined // somebody has written it by hand
  }
}

/**
 * Finds the item of a list that a step means. The API server adds defaults to keys (`protocol`), so a key field that an
 * item lacks may have any value.
 *
 * @returns its index; -1: there is none
 */
export function indexOfItem(list: readonly unknown[], step: PlaceStep): number {
  if (step.kind === 'index') return step.index < list.length ? step.index : -1
  if (step.kind === 'value') return list.findIndex((item) => isDeepStrictEqual(item, step.value))
  if (step.kind === 'field') return -1
  const key = Object.entries(step.key)
  const whole = list.findIndex((item) => key.every(([name, value]) => field(item, name) === value))
  if (whole >= 0) return whole
  return list.findIndex((item) => {
    const known = key.filter(([name]) => field(item, name) !== undefined)
    return known.length > 0 && known.every(([name, value]) => field(item, name) === value)
  })
}

/** False for an item that `indexOfItem` cannot find for this step: it need not search a long list for each step. */
export function mayBeItem(item: unknown, step: PlaceStep): boolean {
  if (step.kind !== 'key') return true
  return Object.entries(step.key).every(([name, value]) =>
    [undefined, value].includes(field(item, name) as typeof value),
  )
}

/** Returns the value below another one; undefined: there is none. */
export function valueBelow(value: unknown, step: PlaceStep): unknown {
  if (step.kind === 'field') return Array.isArray(value) ? undefined : field(value, step.name)
  return Array.isArray(value) ? value[indexOfItem(value, step)] : undefined
}

/**
 * Finds the places that a text of the API server may mean: `.spec.ports[port=80,protocol="TCP"].name`. It writes keys of
 * maps without quotes, so a key with dots can be mistaken for several.
 *
 * @param value - object with the field
 * @returns empty: the object has no such field
 */
export function placesNamed(value: unknown, text: string): readonly FieldPlace[] {
  if (text === '') return [[]]
  if (Array.isArray(value)) {
    const item = text.startsWith('[') ? readItem(text, 0) : undefined
    if (!item || 'problem' in item || item.part.kind === 'any') return []
    const index = indexOfItem(value, item.part)
    return index < 0 ? [] : below(item.part, placesNamed(value[index], text.slice(item.end)))
  }
  if (!isMap(value) || !text.startsWith('.')) return []
  return Object.entries(value).flatMap(([name, inner]) => {
    const rest = text.slice(name.length + 1)
    const isNext = text.startsWith(name, 1) && ['', '.', '['].includes(rest.slice(0, 1))
    return isNext ? below({ kind: 'field', name }, placesNamed(inner, rest)) : []
  })
}

function below(step: PlaceStep, places: readonly FieldPlace[]): readonly FieldPlace[] {
  return places.map((place) => [step, ...place])
}

/** Returns the object without some of its fields. Maps and items around them stay, also if nothing is left in them. */
export function removeFields(object: ObjectTree, places: Iterable<FieldPlace>): ObjectTree {
  let rest: unknown = object
  for (const place of places) rest = removed(rest, place)
  return rest as ObjectTree
}

function removed(value: unknown, [step, ...inner]: FieldPlace): unknown {
  if (!step) return value
  if (step.kind === 'field') {
    if (!isMap(value) || !Object.hasOwn(value, step.name)) return value
    const { [step.name]: found, ...others } = value
    return inner.length === 0 ? others : { ...value, [step.name]: removed(found, inner) }
  }
  const index = Array.isArray(value) ? indexOfItem(value, step) : -1
  if (!Array.isArray(value) || index < 0) return value
  return inner.length === 0 ? value.toSpliced(index, 1) : value.with(index, removed(value[index], inner))
}

function isMap(value: unknown): value is ObjectTree {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
