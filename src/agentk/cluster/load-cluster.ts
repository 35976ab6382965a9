import { delimiter } from 'node:path'
import type { ClusterSettings, KubeconfigFlags } from '../../lib/kubeconfig.ts'
import { ClusterAccess } from './cluster-access.ts'

/**
 * Finds the cluster that is named by flags, else by KUBECONFIG, else the one that this pod runs in. It never takes one
 * from a user's home, which nobody has named.
 *
 * @throws Error that says what to set
 */
export async function loadCluster(flags: KubeconfigFlags, env: NodeJS.ProcessEnv): Promise<ClusterAccess> {
  const files = flags.kubeconfig ? [flags.kubeconfig] : (env.KUBECONFIG ?? '').split(delimiter).filter(Boolean)
  if (files.length > 0 || flags.server) {
    const { loadKubeconfig } = await import('../../lib/kubeconfig.ts') // loaded here: in a pod no YAML is read
    return new ClusterAccess(await loadKubeconfig(files, flags))
  }
  const inCluster = serviceAccount(env)
  if (!inCluster) {
    throw new Error('No cluster is named: run agentk in a pod, or give it --kubeconfig FILE or KUBECONFIG')
  }
  const { as, asGroup, asUid } = flags
  if (!as && !asGroup && !asUid) return new ClusterAccess(inCluster)
  const impersonation = { username: as ?? '', groups: asGroup ?? [], uid: asUid ?? '', extra: [] }
  return new ClusterAccess({ ...inCluster, impersonation })
}

/** Folder in which Kubernetes mounts a pod's own identity. */
const folder = '/var/run/secrets/kubernetes.io/serviceaccount'

/** Access by the pod's service account; undefined: outside a cluster. The token file is read again as it rotates. */
function serviceAccount(env: NodeJS.ProcessEnv): ClusterSettings | undefined {
  const host = env.KUBERNETES_SERVICE_HOST
  const port = env.KUBERNETES_SERVICE_PORT
  if (!host || !port) return undefined
  return {
    server: `https://${host.includes(':') ? `[${host}]` : host}:${port}`,
    ca: { file: `${folder}/ca.crt` },
    token: { file: `${folder}/token` },
  }
}
