import { aggregatedVersions, discoveryAccept, type GroupVersion, namedVersions, resourcesOf } from './discovery.ts'
import { groupPath, groupsPath, versionPath } from './path.ts'

/** Limit of one answer; a kind takes some 3 KB. */
const maxDiscoveryBytes = 16 * 1024 * 1024

/** Asks the API server for JSON. */
export interface DiscoveryClient {
  json(
    method: 'GET',
    path: string,
    body: undefined,
    signal: AbortSignal,
    options: { readonly accept: string; readonly maxBytes: number },
  ): Promise<{ readonly status: number; readonly body: unknown }>
}

/** The answer of the API server for `/api` or `/apis` cannot be used. */
export class NoDiscovery extends Error {
  override readonly name = 'NoDiscovery'
  /** status of the answer */
  readonly status: number

  constructor(path: string, status: number) {
    const answer = status === 200 ? 'something that is no discovery' : String(status)
    super(`the API server answered ${answer} for ${path}`)
    this.status = status
  }
}

/**
 * Reads all that the API server serves: groups in its order, each group's preferred version first. A group whose own
 * server does not answer is stale.
 *
 * @throws NoDiscovery, or the connection's error
 */
export async function discoverVersions(client: DiscoveryClient, signal: AbortSignal): Promise<GroupVersion[]> {
  const options = { accept: discoveryAccept, maxBytes: maxDiscoveryBytes }
  const ask = (path: string) => client.json('GET', path, undefined, signal, options)
  const versions: GroupVersion[] = []
  for (const root of [groupPath(''), groupsPath]) {
    const { status, body } = await ask(root)
    const aggregated = status === 200 ? aggregatedVersions(body) : undefined
    const named = aggregated ? [] : namedVersions(body)
    if (status !== 200 || !named) throw new NoDiscovery(root, status)
    versions.push(...(aggregated ?? []))
    for (const each of named) {
      const answer = await ask(versionPath(each))
      const resources = answer.status === 200 ? resourcesOf(answer.body) : undefined
      versions.push({ ...each, isStale: resources === undefined, resources: resources ?? [] })
    }
  }
  return versions
}
