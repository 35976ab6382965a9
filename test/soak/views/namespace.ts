import type { ApiClient } from '../../../dev/control-plane/api-client.ts'

/** Resolves once Pods can be created there: the service account comes after the namespace. */
export async function createNamespace(admin: ApiClient, name: string, signal: AbortSignal): Promise<void> {
  await admin.create('/api/v1/namespaces', { metadata: { name } })
  const isDefault = (account: { metadata?: { name?: string } }) => account.metadata?.name === 'default'
  await admin.until(`/api/v1/namespaces/${name}/serviceaccounts`, isDefault, signal)
}
