import t from 'tap'
import { ownPartsOf, traitsOf } from '../../../../../../src/agentk/modules/views/projection/parts.ts'

t.test('what is kept of an object that is not well holds all that others are judged by', async (t) => {
  const metadata = { name: 'a', uid: 'u', deletionTimestamp: '2026-11-20T10:00:00Z' }
  const template = { metadata: { labels: { app: 'web' } } }
  const objects = {
    'discovery.k8s.io/EndpointSlice': { endpoints: [{ conditions: { ready: false } }, {}], ports: null },
    'apps/Deployment': { spec: { replicas: 2, template } },
    ReplicationController: { spec: { replicas: 2, template } },
    'batch/Job': { spec: { template }, status: { conditions: [{ type: 'Complete', status: 'True' }] } },
    'batch/CronJob': { spec: { jobTemplate: { spec: { template } } } },
    Node: { spec: { taints: [{ key: 'a', value: 'b', effect: 'NoSchedule' }] } },
    PersistentVolumeClaim: { spec: { storageClassName: 'fast' } },
    'storage.k8s.io/StorageClass': { volumeBindingMode: 'WaitForFirstConsumer' },
  }
  for (const [kind, parts] of Object.entries(objects)) {
    const object = { apiVersion: 'v1', kind: kind.split('/').at(-1) ?? '', metadata, ...parts }
    const traits = traitsOf(kind, object)
    t.ok(traits, kind)
    t.match(ownPartsOf(kind, object), { ...traits, metadata, kind: object.kind }, kind)
  }
})

t.test('of a node it is kept since when it takes no Pods', async (t) => {
  const taints = [{ key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule', timeAdded: '2026-11-20T10:00:00Z' }]
  const spec = { unschedulable: true, taints }
  t.match(ownPartsOf('Node', { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n' }, spec }), { spec })
})
