import { KasError } from '../../lib/errors.ts'
import type { ApiClient } from './api-client.ts'

export interface KubernetesVersionInfo {
  readonly major: string
  readonly minor: string
  readonly gitVersion: string
  readonly platform: string
}

/** What the cluster runs. @throws KasError UNREACHABLE when the API server does not answer with a version */
export async function askKubernetesVersion(client: ApiClient, signal: AbortSignal): Promise<KubernetesVersionInfo> {
  const { status, body } = await client.json('GET', '/version', undefined, signal)
  if (status !== 200 || typeof body !== 'object' || !body) {
    throw new KasError({ code: 'UNREACHABLE', detail: `/version was answered with ${status}`, httpStatus: status })
  }
  const { major = '', minor = '', gitVersion = '', platform = '' } = body as Partial<KubernetesVersionInfo>
  return { major, minor, gitVersion, platform }
}
