import type { ClusterSettings } from '../../lib/kubeconfig.ts'

/** Where Kubernetes mounts a pod's own identity. */
const folder = '/var/run/secrets/kubernetes.io/serviceaccount'

/** Access by the pod's service account, or undefined outside a cluster. The token file is read again as it rotates. */
export function serviceAccount(env: NodeJS.ProcessEnv): ClusterSettings | undefined {
  const host = env.KUBERNETES_SERVICE_HOST
  const port = env.KUBERNETES_SERVICE_PORT
  if (!host || !port) return undefined
  return {
    server: `https://${host.includes(':') ? `[${host}]` : host}:${port}`,
    ca: { file: `${folder}/ca.crt` },
    token: { file: `${folder}/token` },
  }
}
