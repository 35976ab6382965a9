import type { Test } from 'tap'
import type { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { ApiClient, type ApiClientOptions } from '../../src/agentk/cluster/api-client.ts'
import { ClusterAccess } from '../../src/agentk/cluster/cluster-access.ts'
import type { ClusterSettings } from '../../src/lib/kubeconfig.ts'

/** agentk's client of an API server; it is closed when the test ends. */
export function apiClient(
  t: Pick<Test, 'teardown'>,
  settings: ClusterSettings,
  options: ApiClientOptions = {},
): ApiClient {
  const client = new ApiClient(new ClusterAccess(settings), options)
  t.teardown(() => client.close())
  return client
}

/** @param server - address of the control plane, if another one than its own */
export function adminClient(
  t: Pick<Test, 'teardown'>,
  controlPlane: ControlPlane,
  server = controlPlane.server,
): ApiClient {
  const { caFile, adminCertificateFile, adminKeyFile } = controlPlane
  const admin = { certificate: { file: adminCertificateFile }, key: { file: adminKeyFile } }
  return apiClient(t, { server, ca: { file: caFile }, ...admin })
}
