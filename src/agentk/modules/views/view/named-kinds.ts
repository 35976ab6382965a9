import { parseKindKey, type ResourceKind } from '../../../../kubernetes/kind.ts'
import { type BuiltInKind, builtInKinds } from '../../../../kubernetes/kind-words.ts'
import { nearestName } from '../../../../lib/nearest-name.ts'
import type { ViewState } from '../../../../proto/views-json.ts'
import type { Caller } from '../../../caller.ts'
import type { Visibility } from '../store/record.ts'
import type { WordPlaces } from '../tree/object-choice.ts'
import type { ReadQuery } from '../tree/query.ts'

/** Bound of a caller's groups that are named: GitLab gives one for each role in each project. */
const maxCallerGroups = 20
/** characters of the caller's name, and of a group */
const maxCallerName = 256
/** Bound of refused resources, and of unknown words, that a view names. */
const maxNamed = 100
/** characters of a word for which a similar name is found; names of kinds have 63 */
const maxMeant = 64

export interface NamedKindsParts {
  readonly query: ReadQuery
  readonly caller: Caller
  readonly visibility: Visibility
  /** kinds that the caller may list in the scope */
  readonly seen: readonly ResourceKind[]
  /** true if the kind is followed, or would be if agentk were allowed to */
  readonly isFollowed: (key: string) => boolean
  /** kinds that the view asks for by itself; absent: none */
  readonly kinds?: readonly BuiltInKind[]
}

export interface NamedKinds extends Pick<ViewState, 'you' | 'refused' | 'unknown'> {
  /** `group/Kind` */
  readonly notFollowed: readonly string[]
}

type Refused = NonNullable<ViewState['refused']>[number]

/**
 * Finds what a query names and does not get: kinds that the caller may not list, and kinds that do not exist. A kind
 * that is not Kubernetes' own and that the caller may not list counts as one that does not exist.
 */
export function namedKinds(parts: NamedKindsParts): NamedKinds {
  const { query, seen, caller, isFollowed, kinds = [] } = parts
  const places = query.objects?.places ?? []
  const words = places.map(({ word }) => word)
  const refused = distinct(refusedIn(parts, places))
  const unknown = unknownOf(query, seen)
  const named = [...kinds, ...words.flatMap(({ builtIn }) => (builtIn.length === 1 ? builtIn : []))] // a category names many
  return {
    ...(refused.length > 0 ? { you: youAre(caller), refused } : {}),
    ...(unknown.length > 0 ? { unknown } : {}),
    notFollowed: named.map(({ key }) => key).filter((key) => !isFollowed(key)),
  }
}

function refusedIn(parts: NamedKindsParts, places: readonly WordPlaces[]): Iterable<Refused> {
  if (parts.query.objects) return refusedOfAll(parts, places)
  return parts.query.view === 'graph' ? refusedOfKinds(parts) : refusedWhole(parts)
}

function* refusedOfKinds(parts: NamedKindsParts): Iterable<Refused> {
  const { query, kinds = [], isFollowed } = parts
  for (const kind of kinds) if (isFollowed(kind.key)) yield* refusedOfKind(parts, kind, query.namespaces)
}

/** Yields namespaces in which the caller may list nothing at all, or no events. */
function* refusedWhole({ query, seen, visibility }: NamedKindsParts): Iterable<Refused> {
  for (const one of query.namespaces ?? ['']) {
    if (query.view !== 'events') {
      if (seen.length === 0) yield ['', one]
    } else if (!visibility.mayListEvents(one)) yield ['events', one]
  }
}

function* refusedOfAll(parts: NamedKindsParts, places: readonly WordPlaces[]): Iterable<Refused> {
  for (const { word, namespaces } of places) {
    const asked = parts.query.namespaces ?? namespaces
    for (const kind of word.builtIn) if (parts.isFollowed(kind.key)) yield* refusedOfKind(parts, kind, asked)
  }
}

function* refusedOfKind(
  { seen, visibility }: NamedKindsParts,
  { key, group, plural, isNamespaced }: BuiltInKind,
  asked: ReadonlySet<string> | undefined,
): Iterable<Refused> {
  const name = group === '' ? plural : `${plural}.${group}`
  const kind: ResourceKind = { key, group, version: '', plural, isNamespaced }
  if (isNamespaced && asked) {
    for (const one of asked) if (!visibility.mayList(kind, one)) yield [name, one]
    return
  }
  if (!visibility.mayList(kind, '') && !(isNamespaced && seen.some((one) => one.key === key))) yield [name, '']
}

/** Keeps each once, and as many as are named: a query may ask for far more. */
function distinct(refused: Iterable<Refused>): Refused[] {
  const found = new Map<string, Refused>()
  for (const one of refused) {
    found.set(one.join(' '), one)
    if (found.size === maxNamed) break
  }
  return [...found.values()]
}

type Unknown = NonNullable<ViewState['unknown']>

/** Unknown words of a query, with the kinds that its caller sees: states change often, and these kinds seldom. */
const unknowns = new WeakMap<ReadQuery, { readonly seen: string; readonly unknown: Unknown }>()

function unknownOf(query: ReadQuery, kinds: readonly ResourceKind[]): Unknown {
  const seen = kinds.map(({ key }) => key).join('\n')
  const known = unknowns.get(query)
  if (known?.seen === seen) return known.unknown
  const unknown: (readonly [word: string, nearest: string])[] = []
  for (const { word } of query.objects?.places ?? []) {
    if (unknown.length === maxNamed) break
    if (word.builtIn.length > 0 || kinds.some((kind) => word.names(kind))) continue
    unknown.push([word.word, word.word.length <= maxMeant ? nearestOf(word.word, kinds) : ''])
  }
  unknowns.set(query, { seen, unknown })
  return unknown
}

function nearestOf(word: string, seen: readonly ResourceKind[]): string {
  const kinds = [...builtInKinds, ...seen].filter(({ plural }) => plural !== '*')
  const names = kinds.flatMap(({ key, plural }) => [plural, parseKindKey(key).kind.toLowerCase()])
  return nearestName(word.toLowerCase(), names) ?? ''
}

function youAre(caller: Caller): NonNullable<ViewState['you']> {
  if (caller.as === 'agent') return { username: '', groups: [] }
  const { username, groups } = caller.user
  return {
    username: username.slice(0, maxCallerName),
    groups: groups.slice(0, maxCallerGroups).map((group) => group.slice(0, maxCallerName)),
  }
}
