import { brokenDeployment, brokenReplicaSet, brokenWorkload } from '../broken-workload.ts'
import type { KubeObject } from './kube-object.ts'
import { type Resource, resources } from './resources.ts'
import type { Store } from './store.ts'

const node = 'embedded-api-double'
const pods = [
  { namespace: 'demo', name: 'clock', does: 'kubectl logs -f: a line a second' },
  { namespace: 'demo', name: 'echo', does: 'kubectl exec -i: gives back what it is sent' },
  { namespace: 'kube-system', name: 'embedded-api-double', does: 'says that this is no real cluster' },
]

/** Creates the objects of a new double: three namespaces, and three pods and a ConfigMap that describe themselves. */
export function seed(store: Store): void {
  for (const name of ['default', 'demo', 'kube-system']) {
    store.create({ resource: named('namespaces'), name }, namespaceOf(name))
  }
  for (const pod of pods) {
    store.create({ resource: named('pods'), namespace: pod.namespace, name: pod.name }, podOf(pod, Date.now()))
  }
  const about = { about: 'An API double that lives inside npm start. It is no cluster: nothing runs in its pods.' }
  const metadata = { name: 'read-me' }
  const readMe = { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: about }
  store.create({ resource: named('configmaps'), namespace: 'demo', name: 'read-me' }, readMe)
}

/** Creates a Deployment that gets no Pods, and its ReplicaSet. */
export function seedBroken(store: Store): void {
  const { namespace, name } = brokenWorkload
  const now = Date.now()
  const deployment = store.create({ resource: named('deployments'), namespace, name }, brokenDeployment(now))
  const replicaSet = brokenReplicaSet(now, deployment.metadata.uid ?? '')
  store.create({ resource: named('replicasets'), namespace, name: replicaSet.metadata.name }, replicaSet)
}

/** @throws Error for a resource that the double does not serve */
export function named(name: string): Resource {
  const resource = resources.find((candidate) => candidate.name === name)
  if (!resource) throw new Error(`the API double serves no ${name}`)
  return resource
}

function namespaceOf(name: string): KubeObject {
  const metadata = { name, labels: { 'kubernetes.io/metadata.name': name } }
  return { apiVersion: 'v1', kind: 'Namespace', metadata, spec: { finalizers: [] }, status: { phase: 'Active' } }
}

function podOf({ name, does }: (typeof pods)[number], now: number): KubeObject {
  const startedAt = `${new Date(now).toISOString().slice(0, 19)}Z`
  const image = 'none'
  const state = { running: { startedAt } }
  const containerStatus = { name, image, imageID: '', ready: true, started: true, restartCount: 0, state }
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, labels: { app: name }, annotations: { 'kas.example/what-works': does } },
    spec: { containers: [{ name, image, resources: {} }], nodeName: node, restartPolicy: 'Always' },
    status: {
      phase: 'Running',
      startTime: startedAt,
      podIP: '192.0.2.1', // an address for documentation (RFC 5737)
      podIPs: [{ ip: '192.0.2.1' }],
      qosClass: 'BestEffort',
      conditions: [{ type: 'Ready', status: 'True', lastTransitionTime: startedAt }],
      containerStatuses: [containerStatus],
    },
  }
}
