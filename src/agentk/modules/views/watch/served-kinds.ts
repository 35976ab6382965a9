import { isBuiltInGroup } from '../../../../kubernetes/built-in-groups.ts'
import type { GroupVersion } from '../../../../kubernetes/discovery.ts'
import { kindKey, type ResourceKind } from '../../../../kubernetes/kind.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import { servedVersions } from '../../../cluster/discovery.ts'
import { isLike } from '../../../health/custom/kind-pattern.ts'

export interface ServedKind extends ResourceKind {
  /** the kind has a `status` subresource */
  readonly hasStatus: boolean
}

/** Kinds that the API server serves. */
export interface Served {
  /** kinds that can be listed and watched, by group in the server's order, each in its preferred version */
  readonly kinds: readonly ServedKind[]
  /** groups whose kinds are not all known now */
  readonly stale: ReadonlySet<string>
}

/**
 * Reads which kinds are served.
 *
 * @throws KasError UNREACHABLE, or the connection's error
 */
export async function discover(client: Pick<ApiClient, 'json'>, signal: AbortSignal): Promise<Served> {
  return served(await servedVersions(client, signal))
}

function served(versions: readonly GroupVersion[]): Served {
  const kinds = new Map<string, ServedKind>()
  const stale = new Set<string>()
  for (const { group, version, isStale, resources } of versions) {
    if (isStale) stale.add(group)
    for (const { plural, kind, verbs, isNamespaced, hasStatus, names } of resources) {
      const key = kindKey(group, kind)
      const isFollowed = verbs.includes('list') && verbs.includes('watch')
      if (!isFollowed || kind === '' || plural === '' || plural.includes('/') || kinds.has(key)) continue
      kinds.set(key, { key, group, version, plural, isNamespaced, hasStatus, names })
    }
  }
  return { kinds: [...kinds.values()], stale }
}

/** Settings under `follow` in `views.yaml`. */
export interface Follow {
  /** namespaces in which a kind is followed that may not be listed in the whole cluster */
  readonly namespaces: readonly string[]
  /** `group/Kind`, or `Kind` of the core group; `*` is any; empty: all */
  readonly kinds: readonly string[]
  /** kinds that are not followed, in the form of `kinds` */
  readonly exclude: readonly string[]
}

export interface KindChoice {
  readonly followed: readonly ServedKind[]
  /** kinds past the bound */
  readonly tooMany: readonly ServedKind[]
}

/** Kinds that are followed only if `kinds` has the whole name: they are many, of little interest, or secret. */
const namedOnly: ReadonlySet<string> = new Set([
  'Event',
  'events.k8s.io/Event',
  'Endpoints',
  'coordination.k8s.io/Lease',
  'coordination.k8s.io/LeaseCandidate',
  'Secret',
])

/**
 * Chooses the kinds to follow: those with their whole name in `kinds` first, then Kubernetes' own, then the others.
 * Each part is in the order in which the kinds are served.
 *
 * @param isOwn - true if the API server itself serves a group
 */
export function chooseKinds(
  served: readonly ServedKind[],
  { kinds, exclude }: Follow,
  { isOwn, maxKinds }: { isOwn: (group: string) => boolean; maxKinds: number },
): KindChoice {
  const named = new Set(kinds)
  const isWanted = ({ key, group }: ServedKind) => {
    if (!isOwn(group) || exclude.some((pattern) => isLike(pattern, key))) return false
    if (named.has(key)) return true
    return !namedOnly.has(key) && (kinds.length === 0 || kinds.some((pattern) => isLike(pattern, key)))
  }
  const rank = ({ key, group }: ServedKind) => (named.has(key) ? 0 : isBuiltInGroup(group) ? 1 : 2)
  const wanted = served.filter(isWanted).sort((one, other) => rank(one) - rank(other))
  return { followed: wanted.slice(0, maxKinds), tooMany: wanted.slice(maxKinds) }
}

/**
 * True if only the metadata of a kind is to be read, since nobody reads more.
 *
 * @param wantsStatus - true if a rule or a relation reads the status of a kind
 */
export function isMetadataEnough(
  { key, group, hasStatus }: ServedKind,
  wantsStatus: (kind: string) => boolean,
): boolean {
  if (key === 'Secret') return true
  return isBuiltInGroup(group) && !hasStatus && !wantsStatus(key)
}
