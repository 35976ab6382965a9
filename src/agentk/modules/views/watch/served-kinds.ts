import type { GroupVersion } from '../../../../kubernetes/discovery.ts'
import { kindKey, type ResourceKind } from '../../../../kubernetes/kind.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import { discoverVersions } from '../../../cluster/discovery.ts'
import { isLike } from '../../../health/custom/kind-pattern.ts'

export interface ServedKind extends ResourceKind {
  /** it has a `status` of its own */
  readonly hasStatus: boolean
}

/** What the API server says that it serves. */
export interface Served {
  /** those that can be listed and watched, by group in the server's order, each in its preferred version */
  readonly kinds: readonly ServedKind[]
  /** groups of which not all is known now */
  readonly stale: ReadonlySet<string>
}

/** @throws KasError UNREACHABLE, or the connection's error */
export async function discover(client: Pick<ApiClient, 'json'>, signal: AbortSignal): Promise<Served> {
  return served(await discoverVersions(client, signal))
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

/** What `views.yaml` says. */
export interface Follow {
  /** where a kind is followed that may not be listed in the whole cluster */
  readonly namespaces: readonly string[]
  /** `group/Kind`, `Kind` of the core group, `*` is any; none: all */
  readonly kinds: readonly string[]
  /** such as those: not followed */
  readonly exclude: readonly string[]
}

export interface KindChoice {
  readonly followed: readonly ServedKind[]
  /** past the bound */
  readonly tooMany: readonly ServedKind[]
}

/** Followed only if `kinds` has its whole name: many, of little interest, or secret. */
const namedOnly: ReadonlySet<string> = new Set([
  'Event',
  'events.k8s.io/Event',
  'Endpoints',
  'coordination.k8s.io/Lease',
  'coordination.k8s.io/LeaseCandidate',
  'Secret',
])

/** Kubernetes' own, which the API server serves itself. */
const builtInGroups: ReadonlySet<string> = new Set([
  '',
  'admissionregistration.k8s.io',
  'apiextensions.k8s.io',
  'apiregistration.k8s.io',
  'apps',
  'authentication.k8s.io',
  'authorization.k8s.io',
  'autoscaling',
  'batch',
  'certificates.k8s.io',
  'coordination.k8s.io',
  'discovery.k8s.io',
  'events.k8s.io',
  'extensions',
  'flowcontrol.apiserver.k8s.io',
  'internal.apiserver.k8s.io',
  'networking.k8s.io',
  'node.k8s.io',
  'policy',
  'rbac.authorization.k8s.io',
  'resource.k8s.io',
  'scheduling.k8s.io',
  'storage.k8s.io',
  'storagemigration.k8s.io',
])

export function isBuiltIn(group: string): boolean {
  return builtInGroups.has(group)
}

/**
 * Which kinds are followed: those that are named whole first, then Kubernetes' own, then the others, each in the order
 * in which they are served.
 *
 * @param isOwn - whether the API server itself serves a group
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
  const rank = ({ key, group }: ServedKind) => (named.has(key) ? 0 : isBuiltIn(group) ? 1 : 2)
  const wanted = served.filter(isWanted).sort((one, other) => rank(one) - rank(other))
  return { followed: wanted.slice(0, maxKinds), tooMany: wanted.slice(maxKinds) }
}

/**
 * Whether nothing but its metadata is asked for: nobody reads more of it.
 *
 * @param wantsStatus - whether a rule or a relation does
 */
export function isMetadataEnough(
  { key, group, hasStatus }: ServedKind,
  wantsStatus: (kind: string) => boolean,
): boolean {
  if (key === 'Secret') return true
  return isBuiltIn(group) && !hasStatus && !wantsStatus(key)
}
