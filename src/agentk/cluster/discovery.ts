import { discoverVersions, NoDiscovery } from '../../kubernetes/discover.ts'
import type { GroupVersion } from '../../kubernetes/discovery.ts'
import { KasError } from '../../lib/errors.ts'
import type { ApiClient } from './api-client.ts'

/** Reads all that the API server serves, as `discoverVersions` does. @throws KasError UNREACHABLE, or the connection's error */
export async function servedVersions(client: Pick<ApiClient, 'json'>, signal: AbortSignal): Promise<GroupVersion[]> {
  try {
    return await discoverVersions(client, signal)
  } catch (error) {
    if (!(error instanceof NoDiscovery)) throw error
    const status = error.status === 200 ? {} : { httpStatus: error.status }
    throw new KasError({ code: 'UNREACHABLE', detail: error.message, ...status })
  }
}
