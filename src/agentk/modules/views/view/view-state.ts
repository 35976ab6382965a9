import type { ResourceKind } from '../../../../kubernetes/kind.ts'
import type { BuiltInKind } from '../../../../kubernetes/kind-words.ts'
import type { ViewState } from '../../../../proto/views-json.ts'
import type { Caller } from '../../../caller.ts'
import type { PresentKinds } from '../access/present-kinds.ts'
import type { FollowState, FollowStates, Visibility } from '../store/record.ts'
import type { ReadQuery } from '../tree/query.ts'
import { type NamedKinds, namedKinds } from './named-kinds.ts'

/** Bound of kinds that a view names as not followed, or as set aside. */
const maxNotFollowed = 100

export interface Seeing {
  readonly states: FollowStates
  readonly visibility: Visibility
  /** namespaces of the scope; undefined: all */
  readonly namespaces: ReadonlySet<string> | undefined
  /** gives the namespaces with objects of a kind */
  readonly present: Pick<PresentKinds, 'namespacesOf'>
}

export type SeenStates = readonly (readonly [kind: ResourceKind, state: FollowState])[]

/** Returns states of the kinds that the caller may list in the scope: other kinds change nothing. */
export function seenStates(seeing: Seeing): SeenStates {
  return [...seeing.states.all()].filter((one) => mayListAny(seeing, ...one))
}

export interface ViewStateParts {
  readonly seen: SeenStates
  readonly visibility: Visibility
  readonly query: ReadQuery
  /** some kinds were not listed since the start */
  readonly isFirstList: boolean
  /** other problem; empty: none */
  readonly problem: string
  /** ms since 1970 */
  readonly openedAt: number
  readonly caller: Caller
  /** a right that is missing is denied, not merely unknown */
  readonly areRightsKnown: boolean
  /** the view is not live before its rights are known */
  readonly awaitsRights: boolean
  readonly isFollowed: (key: string) => boolean
  /** kinds that the view asks for by itself */
  readonly kinds: readonly BuiltInKind[]
}

export function viewState(parts: ViewStateParts): ViewState {
  const { seen, areRightsKnown, problem } = parts
  const areShown = areRightsKnown && !problem
  const { notFollowed: unfollowed, ...rest }: NamedKinds = areShown
    ? namedKinds({ ...parts, seen: seen.map(([kind]) => kind) })
    : { notFollowed: [] }
  const leftOutOfIt = seen.flatMap(([kind, state]) => leftOut(parts, kind, state))
  const notFollowed = [...new Set([...unfollowed, ...leftOutOfIt])].sort()
  // if no kind is live, all that is shown may be out of date
  const isAnyLive = seen.some(([, state]) => state.is === 'live')
  const aside = isAnyLive ? asideOf(seen) : []
  const named = {
    ...(notFollowed.length > 0 ? { notFollowed: notFollowed.slice(0, maxNotFollowed) } : {}),
    ...(aside.length > 0 ? { aside } : {}),
    ...rest,
  }
  if (parts.problem) return { is: 'stale', since: parts.openedAt, why: parts.problem, ...named }
  const [syncing, stale, live] = (['syncing', 'stale', 'live'] as const).map((is) =>
    seen
      .filter(([, state]) => state.is === is || (is === 'stale' && state.is === 'aside' && !isAnyLive))
      .map(([kind, { since, why }]) => ({ since, why: why && `${kind.key}: ${why}` })),
  ) as { since: number; why: string }[][]
  const [is, of] = syncing?.length ? (['syncing', syncing] as const) : (['stale', stale ?? []] as const)
  if (of.length > 0) {
    const why = of
      .map((one) => one.why)
      .filter(Boolean)
      .sort()[0]
    const listed = is === 'syncing' ? `${seen.length - of.length} of ${seen.length} kinds are listed` : ''
    const text = [listed, why].filter(Boolean).join('; ')
    return { is, since: Math.min(...of.map(({ since }) => since)), ...(text ? { why: text } : {}), ...named }
  }
  if (parts.isFirstList || parts.awaitsRights) return { is: 'syncing', since: parts.openedAt, ...named }
  return { is: 'live', since: Math.max(parts.openedAt, ...(live ?? []).map(({ since }) => since)), ...named }
}

function asideOf(seen: SeenStates): NonNullable<ViewState['aside']> {
  const all = seen.filter(([, { is }]) => is === 'aside').slice(0, maxNotFollowed)
  return all
    .map(([{ key }, { why, since }]) => [key, why, since] as const)
    .sort(([one], [other]) => (one < other ? -1 : 1))
}

function mayListAny(seeing: Seeing, kind: ResourceKind, state: FollowState): boolean {
  const { visibility, namespaces, present } = seeing
  if (namespaces) return visibility.mayListWithin(kind, namespaces)
  if (visibility.mayList(kind, '')) return true
  const missing = [...state.refusedNamespaces, ...state.leftOut.map(({ namespace }) => namespace)]
  if (missing.some((namespace) => visibility.mayList(kind, namespace))) return true
  for (const namespace of present.namespacesOf(kind)) if (visibility.mayList(kind, namespace)) return true
  return false
}

function leftOut({ visibility, query }: ViewStateParts, kind: ResourceKind, state: FollowState): string[] {
  const isAsked = (namespace: string) =>
    (query.namespaces?.has(namespace) ?? true) && visibility.mayList(kind, namespace)
  return [
    ...(state.is === 'refused' || state.is === 'aside' ? [kind.key] : []),
    ...state.refusedNamespaces
      .filter((namespace) => isAsked(namespace) && visibility.mayName(namespace))
      .map((namespace) => `${kind.key} ${namespace}`),
    ...state.leftOut
      .filter(({ namespace }) => isAsked(namespace))
      .map(({ namespace, name }) => `${kind.key} ${namespace}/${name}`),
  ]
}
