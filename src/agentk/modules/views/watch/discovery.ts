import type { GroupVersion } from '../../../../kubernetes/discovery.ts'
import { kindKey, type ResourceKind } from '../../../../kubernetes/kind.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import { discoverVersions } from '../../../cluster/discovery.ts'

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
