import { isDeepStrictEqual } from 'node:util'
import { field, textField } from '../../../../kubernetes/object.ts'
import type { ManagedPath } from '../live/managed-path.ts'
import { maxNestingDepth } from '../live/nesting.ts'
import type { ObjectTree } from '../manifests/manifest.ts'
import type { FieldChange } from './field-change.ts'

/** Fields that name the object itself. */
const identity: ReadonlySet<string> = new Set(['f:apiVersion', 'f:kind', 'f:metadata.f:name', 'f:metadata.f:namespace'])

/**
 * Returns the fields that differ between two manifests of one object, by Git alone. A null counts as no value. Items of
 * lists are compared by their names if all have one; any other list is one value.
 *
 * @param base - undefined: all fields of `next` are set
 */
export function gitChanges(base: ObjectTree | undefined, next: ObjectTree): FieldChange[] {
  const found: FieldChange[] = []
  compare(base, next, [], found)
  return found.filter(({ path }) => !identity.has(path.slice(0, 2).join('.')))
}

function compare(before: unknown, after: unknown, path: ManagedPath, found: FieldChange[]): void {
  const [one, other] = [before ?? undefined, after ?? undefined]
  if (one === undefined && other === undefined) return
  if (path.length < maxNestingDepth) {
    const names = fieldNames(one, other)
    const isCompared = names !== undefined && (names.length > 0 || (one !== undefined && other !== undefined))
    if (isCompared) {
      for (const name of names) compare(field(one, name), field(other, name), [...path, `f:${name}`], found)
      return
    }
    const items = namedItems(one, other)
    if (items) {
      const [first, second] = items
      for (const name of new Set([...first.keys(), ...second.keys()]))
        compare(first.get(name), second.get(name), [...path, `k:${JSON.stringify({ name })}`], found)
      if (!isOrderOf(first, second))
        found.push({ path, kind: 'reordered', before: [...first.keys()], after: [...second.keys()] })
      return
    }
  }
  if (isDeepStrictEqual(one, other)) return
  const kind = one === undefined ? 'added' : other === undefined ? 'missing' : 'changed'
  found.push({ path, kind, before: one, after: other })
}

/** @returns names of the fields of both maps; undefined: one of the values is no map */
function fieldNames(one: unknown, other: unknown): string[] | undefined {
  const isEach = [one, other].every((value) => value === undefined || isMap(value))
  return isEach ? [...new Set([...Object.keys(one ?? {}), ...Object.keys(other ?? {})])] : undefined
}

function isMap(value: unknown): value is ObjectTree {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** @returns items of two lists by their names, in order; undefined: an item has none, or shares it with another */
function namedItems(
  one: unknown,
  other: unknown,
): [ReadonlyMap<string, unknown>, ReadonlyMap<string, unknown>] | undefined {
  const [first, second] = [itemsByName(one), itemsByName(other)]
  return first && second && [first, second]
}

function itemsByName(list: unknown): ReadonlyMap<string, unknown> | undefined {
  if (!Array.isArray(list)) return undefined
  const items = new Map(list.map((item: unknown) => [textField(item, 'name'), item]))
  return items.size === list.length && !items.has('') ? items : undefined
}

/** True if the items that both lists have are in the same order. */
function isOrderOf(one: ReadonlyMap<string, unknown>, other: ReadonlyMap<string, unknown>): boolean {
  const inBoth = (names: Iterable<string>, others: ReadonlyMap<string, unknown>) =>
    [...names].filter((name) => others.has(name))
  return isDeepStrictEqual(inBoth(one.keys(), other), inBoth(other.keys(), one))
}
