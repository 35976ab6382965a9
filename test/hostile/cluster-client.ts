import { readFile } from 'node:fs/promises'
import { ApiClient } from '../../dev/control-plane/api-client.ts'
import { loadKubeconfig, type Source } from '../../src/lib/kubeconfig.ts'

/** Returns a client of the API server itself, without kas and agentk, as the user of a kubeconfig with a token. */
export async function clusterClient(kubeconfig: string): Promise<ApiClient> {
  const { server, ca, token } = await loadKubeconfig([kubeconfig], {})
  return new ApiClient({ server, ca: await textOf(ca), token: await textOf(token) })
}

async function textOf(source: Source | undefined): Promise<string> {
  if (!source) throw new Error('the kubeconfig has no authority, or no token')
  return 'text' in source ? source.text : await readFile(source.file, 'utf8')
}
