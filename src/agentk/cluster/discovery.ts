import {
  aggregatedVersions,
  discoveryAccept,
  type GroupVersion,
  namedVersions,
  resourcesOf,
} from '../../kubernetes/discovery.ts'
import { groupPath, groupsPath, versionPath } from '../../kubernetes/path.ts'
import { KasError } from '../../lib/errors.ts'
import type { ApiClient } from './api-client.ts'

/** Limit of one answer; a kind takes some 3 KB. */
const maxDiscoveryBytes = 16 * 1024 * 1024

/**
 * Reads all that the API server serves: groups in its order, each group's preferred version first. A group whose own
 * server does not answer is stale.
 *
 * @throws KasError UNREACHABLE, or the connection's error
 */
export async function discoverVersions(client: Pick<ApiClient, 'json'>, signal: AbortSignal): Promise<GroupVersion[]> {
  const options = { accept: discoveryAccept, maxBytes: maxDiscoveryBytes }
  const ask = (path: string) => client.json('GET', path, undefined, signal, options)
  const versions: GroupVersion[] = []
  for (const root of [groupPath(''), groupsPath]) {
    const { status, body } = await ask(root)
    if (status !== 200) {
      const detail = `the API server answered ${status} for ${root}`
      throw new KasError({ code: 'UNREACHABLE', detail, httpStatus: status })
    }
    const aggregated = aggregatedVersions(body)
    const named = aggregated ? [] : namedVersions(body)
    if (!named) {
      throw new KasError({ code: 'UNREACHABLE', detail: `what the API server answered for ${root} is no discovery` })
    }
    versions.push(...(aggregated ?? []))
    for (const each of named) {
      const answer = await ask(versionPath(each))
      const resources = answer.status === 200 ? resourcesOf(answer.body) : undefined
      versions.push({ ...each, isStale: resources === undefined, resources: resources ?? [] })
    }
  }
  return versions
}
