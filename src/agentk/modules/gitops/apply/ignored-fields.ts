import { isDeepStrictEqual } from 'node:util'
import type { ObjectKey } from '../../../../kubernetes/key.ts'
import { textAt } from '../../../../kubernetes/object.ts'
import { matchesWildcard } from '../../../../lib/wildcard.ts'
import { type FieldPath, type PathPart, parseFieldPath, pathText } from '../../../../proto/gitops/field-path.ts'
import type { IgnoreBlock } from '../../../../proto/gitops/schema.ts'
import {
  type FieldPlace,
  indexOfItem,
  mayBeItem,
  type PlaceStep,
  parseStep,
  placesNamed,
  valueBelow,
} from '../live/field-places.ts'
import { beforeFirstApply, type FieldSet, type IgnoredOf, isEmpty, without } from '../live/managed-fields.ts'
import { digestAnnotation, inventoryLabel, ownerAnnotation } from '../manifests/annotations.ts'
import type { ObjectTree } from '../manifests/manifest.ts'
import { isSecret } from '../manifests/secrets.ts'
import type { FieldConflict, LeftOut } from '../round.ts'

/**
 * Fields that a source leaves to other managers: `drift.ignore` (doc/guide/gitops.md "Ignored fields"). A rule counts
 * only for fields that another manager owns: a field that only the source owns would be removed if it were left out.
 */

/** Rules of a source, parsed. */
export interface IgnoreRules {
  readonly rules: readonly Rule[]
  /** the source's own manager, whose fields no rule leaves to it */
  readonly own: string
}

interface Rule {
  readonly block: IgnoreBlock
  /** without `paths` in the rule: the whole object */
  readonly paths: readonly FieldPath[]
}

/** Object to which rules are applied. */
export interface RuledObject {
  readonly key: Pick<ObjectKey, 'group' | 'kind'>
  /** object as it is wanted, or live, to find the item of an index; absent: an index is any item */
  readonly objects?: readonly unknown[]
}

/** Conflict of an apply at a field that a rule leaves to its manager. */
export interface IgnoredConflict {
  readonly conflict: FieldConflict
  readonly place: FieldPlace
  /** the rule, for people */
  readonly rule: string
}

/** Limit of values left out that are named for one object. */
const maxLeftOut = 100
/** Limit of a rule's text; a longer one is cut. Characters */
const maxRuleLength = 200
/** Fields of a Secret whose keys nobody shows. */
const secretFields: ReadonlySet<string> = new Set(['data', 'stringData'])

/** Marks of the source, by which it knows its objects: no rule leaves them to others. */
const marks: FieldSet = {
  'f:metadata': {
    'f:labels': { [`f:${inventoryLabel}`]: {} },
    'f:annotations': { [`f:${ownerAnnotation}`]: {}, [`f:${digestAnnotation}`]: {} },
  },
}

/** Index of a list in a JSON Pointer. */
const listIndex = /^(?:0|[1-9]\d{0,8})$/

const wholeObject: FieldPath = { text: '', parts: [] }

/** Parses the rules of a source. @param own - its manager */
export function readRules(blocks: readonly IgnoreBlock[], own: string): IgnoreRules {
  const rules = blocks.map((block) => {
    const paths = block.paths?.flatMap((text) => {
      const path = parseFieldPath(text)
      return 'problem' in path ? [] : [path] // the schema refuses it; kept options of a newer agentk may have it
    })
    return { block, paths: paths ?? [wholeObject] }
  })
  return { rules, own }
}

/** True if a rule for these objects may name an item of a list by its index, so that the objects are needed to find it. */
export function hasIndexes({ rules }: IgnoreRules, key: RuledObject['key']): boolean {
  const isIndex = (part: PathPart) => part.kind === 'index' || (part.kind === 'segment' && listIndex.test(part.name))
  return rules.some((rule) => isAbout(rule, key) && rule.paths.some(({ parts }) => parts.some(isIndex)))
}

/** True if a rule leaves the field to the manager. */
export function isIgnored(place: FieldPlace, manager: string, rules: IgnoreRules, object: RuledObject): boolean {
  return ignoringRule(place, manager, rules, object) !== undefined
}

/** Returns the rule that leaves a field to its manager, as text for people; undefined: there is none. */
export function ignoringRule(
  place: FieldPlace,
  manager: string,
  rules: IgnoreRules,
  { key, objects }: RuledObject,
): string | undefined {
  if (isMark(place)) return undefined
  let walks = walksOf(manager, rules, key)
  let values = objects
  for (const step of place) {
    if (walks.some(isDone)) break
    walks = advanced(walks, step, values)
    values = values?.map((value) => valueBelow(value, step))
  }
  const found = walks.find(isDone)
  return found && ruleText(found, isSecret(key))
}

/**
 * Returns the conflicts of an apply at fields that rules leave to their managers.
 *
 * @param of.object - as it was sent. @param of.objects - to find the items of indexes, by default that object
 */
export function ignoredConflicts(
  conflicts: readonly FieldConflict[],
  rules: IgnoreRules,
  { key, object, objects = [object] }: RuledObject & { readonly object: ObjectTree },
): readonly IgnoredConflict[] {
  if (rules.rules.length === 0) return []
  return conflicts.flatMap((conflict) => {
    const [place, ...others] = placesNamed(object, conflict.field)
    if (!place || place.length === 0 || others.length > 0) return [] // it is not known which field is meant
    const rule = ignoringRule(place, conflict.manager, rules, { key, objects })
    return rule === undefined ? [] : [{ conflict, place, rule }]
  })
}

/** Describes the values that an apply has left out, the first ones. Keys of a Secret are not among them. */
export function leftOutOf(ignored: readonly IgnoredConflict[], key: RuledObject['key']): readonly LeftOut[] {
  const all = ignored.map(({ conflict: { field, manager }, place: [first], rule }) => {
    const isHidden = isSecret(key) && first?.kind === 'field' && secretFields.has(first.name)
    return { path: isHidden ? `.${first.name}` : field, manager, rule }
  })
  const different = new Map(all.map((one) => [JSON.stringify(one), one]))
  return [...different.values()].slice(0, maxLeftOut)
}

/** Returns a function for the fields of an object's entries that rules leave to their managers. */
export function ignoredFields(rules: IgnoreRules, { key, objects }: RuledObject): IgnoredOf {
  return (entry) => {
    const found = covered(entry.fieldsV1, walksOf(textAt(entry, 'manager'), rules, key), objects)
    return isEmpty(found) ? found : without(found, marks)
  }
}

/** Path of a rule, as far as the steps to a field have followed it. */
interface Walk {
  readonly rule: Rule
  readonly path: FieldPath
  /** index of the next part */
  readonly next: number
}

function isDone({ path, next }: Walk): boolean {
  return next === path.parts.length
}

function walksOf(manager: string, { rules, own }: IgnoreRules, key: RuledObject['key']): readonly Walk[] {
  // before-first-apply stands for nobody: the owners were removed, or never known
  if (manager === own || manager === beforeFirstApply) return []
  return rules.flatMap((rule) => {
    const { managers } = rule.block
    const isOf = isAbout(rule, key) && (managers?.some((pattern) => matchesWildcard(pattern, manager)) ?? true)
    return isOf ? rule.paths.map((path) => ({ rule, path, next: 0 })) : []
  })
}

function isAbout({ block: { kinds } }: Rule, key: RuledObject['key']): boolean {
  return kinds?.some((pattern) => matchesKind(pattern, key)) ?? true
}

function matchesKind(pattern: string, { group, kind }: RuledObject['key']): boolean {
  const slash = pattern.indexOf('/')
  if (slash < 0) return matchesWildcard(pattern, kind)
  return matchesWildcard(pattern.slice(0, slash), group) && matchesWildcard(pattern.slice(slash + 1), kind)
}

/** Returns the walks that follow a step, each one step further. @param values - values that the step leads into */
function advanced(walks: readonly Walk[], step: PlaceStep, values: readonly unknown[] | undefined): readonly Walk[] {
  return walks.flatMap((walk) => {
    const parts = walk.path.parts.slice(walk.next)
    const count = step.kind === 'field' ? partsOfName(parts, step.name) : Number(matchesItem(parts[0], step, values))
    return count === 0 ? [] : [{ ...walk, next: walk.next + count }]
  })
}

/** Returns how many parts make up a name, which may contain dots; 0: the path leads elsewhere. */
function partsOfName(parts: readonly PathPart[], name: string): number {
  const [first] = parts
  if (first?.kind === 'segment') return Number(first.name === name)
  const count = name.split('.').length
  const names = parts.slice(0, count).map((part) => (part.kind === 'name' ? part.name : undefined))
  return names.length === count && !names.includes(undefined) && names.join('.') === name ? count : 0
}

function matchesItem(part: PathPart | undefined, step: PlaceStep, values: readonly unknown[] | undefined): boolean {
  switch (part?.kind) {
    case 'any':
      return true
    case 'key': {
      const fields = Object.entries(part.key)
      return step.kind === 'key' && fields.every(([name, value]) => step.key[name] === value)
    }
    case 'value':
      return step.kind === 'value' && isDeepStrictEqual(step.value, part.value)
    case 'index':
      return isAtIndex(part.index, step, values)
    case 'segment':
      return listIndex.test(part.name) && isAtIndex(Number(part.name), step, values)
    default:
      return false
  }
}

function isAtIndex(index: number, step: PlaceStep, values: readonly unknown[] | undefined): boolean {
  if (step.kind === 'index') return step.index === index
  const isThere = (list: readonly unknown[]) => mayBeItem(list[index], step) && indexOfItem(list, step) === index
  return values?.some((value) => Array.isArray(value) && isThere(value)) ?? true
}

/** Returns the part of a set of fields to which paths lead, or below which they end. */
function covered(fields: FieldSet, walks: readonly Walk[], values: readonly unknown[] | undefined): FieldSet {
  if (walks.some(isDone)) return fields
  const found: Record<string, FieldSet> = {}
  for (const [name, inner] of Object.entries(fields)) {
    const step = parseStep(name)
    const next = step ? advanced(walks, step, values) : []
    if (!step || next.length === 0) continue
    const part = covered(
      inner,
      next,
      values?.map((value) => valueBelow(value, step)),
    )
    if (next.some(isDone) || !isEmpty(part)) found[name] = part
  }
  return found
}

function isMark(place: FieldPlace): boolean {
  let fields: FieldSet | undefined = marks
  for (const step of place) fields = step.kind === 'field' ? fields?.[`f:${step.name}`] : undefined
  return fields !== undefined && isEmpty(fields)
}

/** Writes a rule as in the configuration, with the one path that counts: `{ kinds: [Deployment], paths: [.spec.a] }`. */
function ruleText({ rule: { block }, path }: Walk, isOfSecret: boolean): string {
  const [first] = path.parts
  const isHidden = isOfSecret && first !== undefined && 'name' in first && secretFields.has(first.name)
  const list = (name: string, all: readonly string[] | undefined) => (all ? [`${name}: [${all.join(', ')}]`] : [])
  const keys = [
    ...list('kinds', block.kinds),
    ...list('paths', block.paths && [isHidden ? pathText(path, 1) : path.text]),
    ...list('managers', block.managers),
  ]
  return `{ ${keys.join(', ')} }`.slice(0, maxRuleLength)
}
