import { resourcesOf, versionsOfGroup } from '../../../kubernetes/discovery.ts'
import { apiVersionOf } from '../../../kubernetes/kind.ts'
import { groupPath, versionPath } from '../../../kubernetes/path.ts'
import { KasError } from '../../../lib/errors.ts'
import type { ApiClient } from '../../cluster/api-client.ts'

/** Kinds that agentk reads, and their API versions, newest first. No other version has these kinds. */
const kinds = {
  repositories: { group: 'source.toolkit.fluxcd.io', resource: 'gitrepositories' },
  receivers: { group: 'notification.toolkit.fluxcd.io', resource: 'receivers' },
} as const
const versions = ['v1', 'v1beta2', 'v1beta1']

export const resources = { repositories: kinds.repositories.resource, receivers: kinds.receivers.resource }

export interface Apis {
  /** `source.toolkit.fluxcd.io/v1` */
  readonly repositories: string
  /** `notification.toolkit.fluxcd.io/v1` */
  readonly receivers: string
}

/**
 * Finds the newest API versions of GitRepositories and Receivers that the API server serves.
 *
 * @returns undefined: one of the two is not served. @throws KasError UNREACHABLE, or the connection's error
 */
export async function findFluxApis(client: Pick<ApiClient, 'json'>, signal: AbortSignal): Promise<Apis | undefined> {
  const repositories = await findApi(client, kinds.repositories, signal)
  if (repositories === undefined) return undefined
  const receivers = await findApi(client, kinds.receivers, signal)
  return receivers === undefined ? undefined : { repositories, receivers }
}

async function findApi(
  client: Pick<ApiClient, 'json'>,
  { group, resource }: { group: string; resource: string },
  signal: AbortSignal,
): Promise<string | undefined> {
  const served = versionsOfGroup(await read(client, groupPath(group), signal))
  const known = versions.filter((version) => served.some((each) => each.version === version))
  for (const version of known) {
    const all = resourcesOf(await read(client, versionPath({ group, version }), signal))
    if (all?.some(({ plural }) => plural === resource)) return apiVersionOf({ group, version })
  }
  return undefined
}

/** Reads a discovery document. @returns undefined: 404. @throws KasError UNREACHABLE for any other answer */
async function read(client: Pick<ApiClient, 'json'>, path: string, signal: AbortSignal): Promise<unknown> {
  const { status, body } = await client.json('GET', path, undefined, signal)
  if (status === 404) return undefined
  if (status === 200 && body) return body
  throw new KasError({ code: 'UNREACHABLE', detail: `the API server answered ${status} for ${path}` })
}
