import { isDeepStrictEqual } from 'node:util'
import type { KubernetesObject } from '../../../../kubernetes/object.ts'
import { isLaterRestart } from '../apply/restarts.ts'
import type { DifferenceKind } from '../finding.ts'
import { type FieldSet, type ManagedEntry, without } from '../live/managed-fields.ts'
import { FieldReader, keyOf, type ManagedPath, maxPathDepth, oneOf } from '../live/managed-path.ts'
import { OwnedFields, pathsOf } from '../live/owned-fields.ts'
import type { ObjectTree } from '../manifests/manifest.ts'

/** Field of a live object that is not as Git sets it, with whole values. */
export interface FieldDifference {
  readonly path: ManagedPath
  readonly kind: DifferenceKind
  /** Git's value; undefined: none. For a list by key with items in another order, it has their keys */
  readonly before: unknown
  /** live value; undefined: none */
  readonly after: unknown
  /** the values are keys of the items of a list */
  readonly isOfKeys?: true
}

/** Answers of the API server about one object, which belong together. */
export interface ComparedObjects {
  /** answer of the dry-run apply */
  readonly dry: KubernetesObject
  readonly live: KubernetesObject
}

/**
 * Compares a live object with the answer of a dry-run apply at the fields of an Apply entry. Defaults, and fields that
 * others set, make no difference, nor does a restart that is later than Git's. A missing item of a list is one
 * difference, with all fields in it.
 *
 * @param fields - of the Apply entry of the source's manager in that answer
 */
export function differencesOf({ dry, live }: ComparedObjects, fields: FieldSet): FieldDifference[] {
  const comparison = new Comparison()
  comparison.compare(fields, dry, live)
  return comparison.found.filter((one) => !isLaterRestart(one))
}

class Comparison {
  readonly found: FieldDifference[] = []
  readonly #dry = new FieldReader()
  readonly #live = new FieldReader()
  readonly #path: string[] = []

  compare(fields: FieldSet, dry: unknown, live: unknown): void {
    for (const [element, inner] of Object.entries(fields)) {
      if (element === '.') continue
      this.#path.push(element)
      this.#compareChildren(inner, this.#dry.children(dry, element), this.#live.children(live, element))
      this.#path.pop()
    }
    this.#compareOrder(fields, dry, live)
  }

  /** Compares the values of a field, or the items with one key: of these a list may have several. */
  #compareChildren(fields: FieldSet, dry: readonly unknown[], live: readonly unknown[]): void {
    if (dry.length === 0 && live.length === 0) return
    const [before, after] = [oneOf(dry), oneOf(live)]
    if (dry.length <= 1 && live.length <= 1 && this.#isCompared(fields, before, after))
      this.compare(fields, before, after)
    else if (live.length === 0) this.#add('missing', before, after)
    else if (!isDeepStrictEqual(before, after))
      this.#add(hasSameItems(before, after) ? 'reordered' : 'changed', before, after)
  }

  /**
   * True if the fields of two values are compared one by one; false: each value is compared as a whole. Where one side
   * has no value, fields that Git does not set themselves are compared one by one.
   */
  #isCompared(fields: FieldSet, before: unknown, after: unknown): boolean {
    if (Object.keys(fields).length === 0 || this.#path.length >= maxPathDepth) return false
    const types = [before, after].flatMap((value) => (value === undefined ? [] : typeOf(value)))
    const isItself = types.length === 1 && Object.hasOwn(fields, '.')
    return !isItself && types.every((type) => type === types[0] && type !== 'one value')
  }

  /** Compares the order of those items of a list by key that Git sets and that both lists have. */
  #compareOrder(fields: FieldSet, dry: unknown, live: unknown): void {
    const elements = Object.keys(fields).filter((element) => element.startsWith('k:'))
    if (elements.length < 2) return
    const inDry = inOrder(elements, this.#dry, dry)
    const known = new Set(inDry)
    const after = inOrder(elements, this.#live, live).filter((element) => known.has(element))
    const inBoth = new Set(after)
    const before = inDry.filter((element) => inBoth.has(element))
    if (before.every((element, i) => element === after[i])) return
    this.found.push({ ...this.#difference('reordered', before.map(keyOf), after.map(keyOf)), isOfKeys: true })
  }

  #add(kind: DifferenceKind, before: unknown, after: unknown): void {
    this.found.push(this.#difference(kind, before, after))
  }

  #difference(kind: DifferenceKind, before: unknown, after: unknown): FieldDifference {
    return { path: [...this.#path], kind, before, after }
  }
}

function typeOf(value: unknown): 'list' | 'map' | 'one value' {
  if (Array.isArray(value)) return 'list'
  return typeof value === 'object' && value !== null ? 'map' : 'one value'
}

/** Returns the elements that a list has, in the order of its items. */
function inOrder(elements: readonly string[], reader: FieldReader, list: unknown): string[] {
  const places = elements.flatMap((element) => {
    const [place] = reader.places(list, element)
    return place === undefined ? [] : [{ place, element }]
  })
  return places.sort((one, other) => one.place - other.place).map(({ element }) => element)
}

/** True if two lists differ in their order alone. */
function hasSameItems(one: unknown, other: unknown): boolean {
  if (!Array.isArray(one) || !Array.isArray(other) || one.length !== other.length) return false
  const sorted = (list: readonly unknown[]) => list.map((item) => JSON.stringify(item)).sort()
  return isDeepStrictEqual(sorted(one), sorted(other))
}

/** Returns the fields of a live object that only `adders` have set, outside of metadata and status. */
export function addedFields(
  live: KubernetesObject,
  owned: OwnedFields,
  adders: ReadonlySet<ManagedEntry>,
): FieldDifference[] {
  const reader = new FieldReader()
  return owned.onlyOf(adders).flatMap((path) => {
    const after = reader.at(live, path)
    return after === undefined ? [] : [{ path, kind: 'added' as const, before: undefined, after }]
  })
}

/**
 * Returns the fields that the source's manager has applied and Git does not set: an apply removes them, or the API
 * server resets them to a default. A removed item of a list is one difference, with all fields in it.
 *
 * @param own - the source's Apply entries: in the answer of the dry run, and in the live object
 */
export function unsetFields(
  { dry, live }: ComparedObjects,
  own: { readonly dry: ManagedEntry | undefined; readonly live: ManagedEntry | undefined },
): FieldDifference[] {
  const paths = pathsOf(without(own.live?.fieldsV1 ?? {}, own.dry?.fieldsV1 ?? {}))
  if (paths.length === 0) return []
  const owned = new OwnedFields(own.dry ? [own.dry] : [])
  const [ofDry, ofLive] = [new FieldReader(), new FieldReader()]
  const found: FieldDifference[] = []
  for (const path of paths) {
    if (owned.owners(path).length > 0) continue // Git sets fields in it, or all around it
    const around = found.at(-1)?.path // a field comes before the fields in it
    if (around?.every((element, level) => element === path[level])) continue
    const [before, after] = [ofDry.at(dry, path), ofLive.at(live, path)]
    if (after !== undefined && !isDeepStrictEqual(before, after)) found.push({ path, kind: 'changed', before, after })
  }
  return found
}

/**
 * Returns the differences that a change of the live object explains. The others come from the dry run: the live value
 * is the one that apply sends, so a webhook that came later changes it. Where both sides have that value, or none
 * has, `isAsApplied` decides.
 *
 * @param sent - the object as apply sends it
 * @param isAsApplied - true if the owners prove that the field is as it was applied last
 */
export function changesOfLive(
  differences: readonly FieldDifference[],
  sent: ObjectTree,
  isAsApplied: (difference: FieldDifference) => boolean,
): { readonly ofLive: FieldDifference[]; readonly ofDryRun: FieldDifference[] } {
  const reader = new FieldReader()
  const [ofLive, ofDryRun]: [FieldDifference[], FieldDifference[]] = [[], []]
  for (const difference of differences) {
    const { path, before, after, isOfKeys } = difference
    const value = reader.at(sent, path)
    const isGits = (side: unknown) => value !== undefined && (isOfKeys ? isOrderOf(value, side) : hasValue(side, value))
    const [isBefore, isAfter] = [isGits(before), isGits(after)]
    if (isBefore === isAfter ? isAsApplied(difference) : isAfter) ofDryRun.push(difference)
    else ofLive.push(difference)
  }
  return { ofLive, ofDryRun }
}

/** True if a value is what apply sends, as far as apply says: the API server adds defaults. */
function hasValue(value: unknown, sent: unknown): boolean {
  if (sent === null) return value === undefined || value === null
  if (typeof sent !== 'object') return value === sent
  if (typeof value !== 'object' || value === null || Array.isArray(value) !== Array.isArray(sent)) return false
  if (Array.isArray(sent)) {
    const items = value as readonly unknown[]
    return items.length === sent.length && sent.every((item, i) => hasValue(items[i], item))
  }
  return Object.entries(sent).every(([name, one]) => hasValue((value as ObjectTree)[name], one))
}

/** True if the items of a list with these keys are in their order. @param keys - from a difference */
function isOrderOf(list: unknown, keys: unknown): boolean {
  const elements = (keys as readonly unknown[]).map((key) => `k:${JSON.stringify(key)}`)
  const found = inOrder(elements, new FieldReader(), list)
  return found.length === elements.length && found.every((element, i) => element === elements[i])
}
