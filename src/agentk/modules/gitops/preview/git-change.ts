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
    const items = itemNames(one, other)
    if (items) {
      for (const name of items)
        compare(itemOf(one, name), itemOf(other, name), [...path, `k:${JSON.stringify({ name })}`], found)
      if (!isOrderOf(one, other)) found.push({ path, kind: 'reordered', before: namesOf(one), after: namesOf(other) })
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

/** @returns names of the items of two lists; undefined: an item has none, or shares it with another */
function itemNames(one: unknown, other: unknown): string[] | undefined {
  if (!Array.isArray(one) || !Array.isArray(other)) return undefined
  const [first, second] = [namesOf(one), namesOf(other)]
  const isNamed = [first, second].every((names) => !names.includes('') && new Set(names).size === names.length)
  return isNamed ? [...new Set([...first, ...second])] : undefined
}

function namesOf(list: unknown): string[] {
  return (list as readonly unknown[]).map((item) => textField(item, 'name'))
}

function itemOf(list: unknown, name: string): unknown {
  return (list as readonly unknown[]).find((item) => textField(item, 'name') === name)
}

/** True if the items that both lists have are in the same order. */
function isOrderOf(one: unknown, other: unknown): boolean {
  const [first, second] = [namesOf(one), namesOf(other)]
  const inBoth = (names: readonly string[], others: readonly string[]) => names.filter((name) => others.includes(name))
  return isDeepStrictEqual(inBoth(first, second), inBoth(second, first))
}
