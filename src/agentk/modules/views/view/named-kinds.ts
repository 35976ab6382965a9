import { nearestName } from '../../../../lib/nearest-name.ts'
import { type BuiltInKind, builtInKinds } from '../../../../proto/kind-words.ts'
import type { ViewState } from '../../../../proto/views-json.ts'
import type { ResourceKind } from '../../../cluster/api-kinds.ts'
import type { Caller } from '../access/reviews.ts'
import type { Visibility } from '../store/record.ts'
import type { WordPlaces } from '../tree/object-choice.ts'
import type { ReadQuery } from '../tree/query.ts'

/** Of one caller: GitLab gives one for each role in each project. */
const maxCallerGroups = 20
/** characters of the caller's name, and of a group */
const maxCallerName = 256
/** The most that are named. */
const maxNamed = 100

export interface NamedKindsParts {
  readonly query: ReadQuery
  readonly caller: Caller
  readonly visibility: Visibility
  /** that the caller may list where the scope is */
  readonly seen: readonly ResourceKind[]
  /** whether it is one of those that are followed, or would be if agentk might */
  readonly isFollowed: (key: string) => boolean
}

export interface NamedKinds extends Pick<ViewState, 'you' | 'refused' | 'unknown'> {
  /** `group/Kind` */
  readonly notFollowed: readonly string[]
}

type Refused = NonNullable<ViewState['refused']>[number]

/**
 * What a query names and does not get: what the caller may not list, and kinds that there are not. One that is none of
 * Kubernetes' own and that the caller may not list is as one that there is not.
 */
export function namedKinds(parts: NamedKindsParts): NamedKinds {
  const { query, seen, caller, isFollowed } = parts
  const places = query.objects?.places ?? []
  const words = places.map(({ word }) => word)
  const refused = query.objects ? places.flatMap((place) => refusedOf(parts, place)) : refusedWhole(parts)
  const unknown = words
    .filter((word) => word.builtIn.length === 0 && !seen.some((kind) => word.names(kind)))
    .map(({ word }) => [word, nearestOf(word, seen)] as const)
  const named = words.flatMap(({ builtIn }) => (builtIn.length === 1 ? builtIn : [])) // a category names many
  return {
    ...(refused.length > 0 ? { you: youAre(caller), refused: distinct(refused).slice(0, maxNamed) } : {}),
    ...(unknown.length > 0 ? { unknown: unknown.slice(0, maxNamed) } : {}),
    notFollowed: named.map(({ key }) => key).filter((key) => !isFollowed(key)),
  }
}

/** Where nothing at all may be listed, or no events. */
function refusedWhole({ query, seen, visibility }: NamedKindsParts): Refused[] {
  const namespaces = [...(query.namespaces ?? [''])]
  if (query.view === 'events') {
    return namespaces.filter((one) => !visibility.mayListEvents(one)).map((one) => ['events', one])
  }
  return seen.length > 0 ? [] : namespaces.map((one) => ['', one])
}

function refusedOf(parts: NamedKindsParts, { word, namespaces }: WordPlaces): Refused[] {
  const asked = parts.query.namespaces ?? namespaces
  return word.builtIn.filter(({ key }) => parts.isFollowed(key)).flatMap((kind) => refusedOfKind(parts, kind, asked))
}

function refusedOfKind(
  { seen, visibility }: NamedKindsParts,
  { key, group, plural, isNamespaced }: BuiltInKind,
  asked: ReadonlySet<string> | undefined,
): Refused[] {
  const name = group === '' ? plural : `${plural}.${group}`
  const kind: ResourceKind = { key, group, version: '', plural, isNamespaced }
  if (isNamespaced && asked) return [...asked].filter((one) => !visibility.mayList(kind, one)).map((one) => [name, one])
  const isSeen = visibility.mayList(kind, '') || (isNamespaced && seen.some((one) => one.key === key))
  return isSeen ? [] : [[name, '']]
}

function distinct(refused: readonly Refused[]): Refused[] {
  return [...new Map(refused.map((one) => [one.join(' '), one])).values()]
}

function nearestOf(word: string, seen: readonly ResourceKind[]): string {
  const names = [...builtInKinds, ...seen].flatMap(({ key, plural }) => [
    plural,
    key.slice(key.indexOf('/') + 1).toLowerCase(),
  ])
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
