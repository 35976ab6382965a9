import type { ApiClient } from './control-plane/api-client.ts'
import type { Parts } from './control-plane/assets.ts'

/** A Deployment that gets no Pods: it names a service account that does not exist. `npm start` shows its cause. */

export const brokenWorkload = { namespace: 'demo', name: 'broken' } as const

const account = 'absent'
const replicaSetName = `${brokenWorkload.name}-6c8f7d9b54`
const labels = { app: brokenWorkload.name }
const refusal =
  `pods "${replicaSetName}-" is forbidden: error looking up service account ` +
  `${brokenWorkload.namespace}/${account}: serviceaccount "${account}" not found`
const spec = {
  replicas: 1,
  selector: { matchLabels: labels },
  template: {
    metadata: { labels },
    spec: { serviceAccountName: account, containers: [{ name: 'app', image: 'registry.example.com/app:1' }] },
  },
}

/** Returns the Deployment as a controller leaves it. @param now - ms since 1970 */
export function brokenDeployment(now: number) {
  const { name, namespace } = brokenWorkload
  const condition = conditionAt(now)
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name, namespace, labels, generation: 1, annotations: { 'deployment.kubernetes.io/revision': '1' } },
    spec,
    status: {
      observedGeneration: 1,
      unavailableReplicas: 1,
      conditions: [
        condition('Progressing', 'True', 'NewReplicaSetCreated', `Created new replica set "${replicaSetName}"`),
        condition('Available', 'False', 'MinimumReplicasUnavailable', 'Deployment does not have minimum availability.'),
        condition('ReplicaFailure', 'True', 'FailedCreate', refusal),
      ],
    },
  }
}

/** @param owner - uid of the Deployment */
export function brokenReplicaSet(now: number, owner: string) {
  const { name, namespace } = brokenWorkload
  const hash = { 'pod-template-hash': '6c8f7d9b54' }
  const { template, selector } = spec
  const ownerReference = { apiVersion: 'apps/v1', kind: 'Deployment', name, uid: owner, controller: true }
  return {
    apiVersion: 'apps/v1',
    kind: 'ReplicaSet',
    metadata: {
      name: replicaSetName,
      namespace,
      labels: { ...labels, ...hash },
      generation: 1,
      annotations: { 'deployment.kubernetes.io/revision': '1' },
      ownerReferences: [ownerReference],
    },
    spec: {
      replicas: 1,
      selector: { matchLabels: { ...selector.matchLabels, ...hash } },
      template: { ...template, metadata: { labels: { ...labels, ...hash } } },
    },
    status: {
      replicas: 0,
      observedGeneration: 1,
      conditions: [conditionAt(now)('ReplicaFailure', 'True', 'FailedCreate', refusal)],
    },
  }
}

function conditionAt(now: number) {
  const at = `${new Date(now).toISOString().slice(0, 19)}Z`
  return (type: string, status: string, reason: string, message: string) => ({
    type,
    status,
    reason,
    message,
    lastUpdateTime: at,
    lastTransitionTime: at,
  })
}

/** Creates it at a real API server; without controllers, with the status that they would write. */
export async function createBrokenWorkload(client: Pick<ApiClient, 'create' | 'request'>, parts: Parts): Promise<void> {
  const { namespace, name } = brokenWorkload
  const now = Date.now()
  await client.create('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
  const { status, ...deployment } = brokenDeployment(now)
  const path = `/apis/apps/v1/namespaces/${namespace}`
  const { metadata } = await client.create(`${path}/deployments`, deployment)
  if (parts === 'all') return
  const { status: ofReplicaSet, ...replicaSet } = brokenReplicaSet(now, metadata.uid)
  await client.create(`${path}/replicasets`, replicaSet)
  const patch = (at: string, body: object) =>
    client.request(`${path}/${at}/status`, { method: 'PATCH', body, contentType: 'application/merge-patch+json' })
  await patch(`deployments/${name}`, { status })
  await patch(`replicasets/${replicaSetName}`, { status: ofReplicaSet })
}
