import type { ObjectTree } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import { deployment } from './ground.ts'

/** Objects of many kinds, and changes of fields that Git may have set. */

const object = (apiVersion: string, kind: string, fields: object, name = kind.toLowerCase()): ObjectTree => ({
  apiVersion,
  kind,
  metadata: { name },
  ...fields,
})

const core = (kind: string, fields: object) => object('v1', kind, fields)
const rbac = (kind: string, fields: object) => object('rbac.authorization.k8s.io/v1', kind, fields)
const widget = (name: string, fields: object) => object('example.com/v1', 'Widget', fields, name)

const base64 = (text: string) => Buffer.from(text).toString('base64')
const rule = (verb: string) => ({ apiGroups: [''], resources: ['pods'], verbs: [verb] })
const webhook = (failurePolicy: string) => ({
  name: 'one.example.com',
  clientConfig: { url: 'https://example.com' },
  rules: [{ apiGroups: ['none.example.com'], apiVersions: ['v1'], operations: ['CREATE'], resources: ['none'] }],
  sideEffects: 'None',
  admissionReviewVersions: ['v1'],
  failurePolicy,
})
const definition = (shortNames: readonly string[]) => ({
  group: 'kept.example.com',
  scope: 'Namespaced',
  names: { plural: 'keeps', singular: 'keep', kind: 'Keep', shortNames },
  versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: { type: 'object' } } }],
})

/** Each object with merge patches that change one of its fields. */
export const keptFields: readonly (readonly [object: ObjectTree, ...changes: object[]])[] = [
  [
    core('ConfigMap', { data: { a: '1' } }),
    { data: { a: '2' } },
    { data: { b: '1' } },
    { data: null },
    { binaryData: { c: base64('x') } },
    { immutable: true },
  ],
  [
    core('Secret', { stringData: { a: '1' } }),
    { stringData: { a: '2' } },
    { data: { a: base64('3') } },
    { immutable: false },
  ],
  [
    core('ServiceAccount', { automountServiceAccountToken: false }),
    { automountServiceAccountToken: null },
    { secrets: [{ name: 'token' }] },
    { imagePullSecrets: [{ name: 'registry' }] },
  ],
  [core('Service', { spec: { ports: [{ port: 80 }] } }), { spec: { selector: { app: 'web' } } }],
  [
    core('Endpoints', { subsets: [{ addresses: [{ ip: '10.1.1.1' }], ports: [{ port: 80 }] }] }),
    { subsets: [{ addresses: [{ ip: '10.1.1.2' }], ports: [{ port: 80 }] }] },
  ],
  [core('LimitRange', { spec: { limits: [] } }), { spec: { limits: [{ type: 'Pod', max: { cpu: '1' } }] } }],
  [core('Node', {}), { spec: { unschedulable: true } }],
  [
    deployment('web'),
    { spec: { replicas: 3 } },
    { spec: { paused: true } },
    { spec: { template: { spec: { serviceAccountName: 'robot' } } } },
    { spec: { template: { metadata: { labels: { color: 'red' } } } } },
    { spec: { template: { metadata: { annotations: { 'example.com/config': '1' } } } } },
  ],
  [object('apps/v1', 'ControllerRevision', { data: { a: 1 }, revision: 1 }), { revision: 2 }],
  [
    object('autoscaling/v2', 'HorizontalPodAutoscaler', {
      spec: { maxReplicas: 3, scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web' } },
    }),
    { spec: { maxReplicas: 4 } },
  ],
  [
    object('networking.k8s.io/v1', 'NetworkPolicy', { spec: { podSelector: {} } }),
    { spec: { podSelector: { matchLabels: { a: 'b' } } } },
  ],
  [
    object('discovery.k8s.io/v1', 'EndpointSlice', {
      addressType: 'IPv4',
      endpoints: [{ addresses: ['10.1.1.1'] }],
      ports: [{ port: 80 }],
    }),
    { endpoints: [{ addresses: ['10.1.1.2'] }] },
    { ports: [{ port: 81 }] },
  ],
  [rbac('Role', { rules: [rule('get')] }), { rules: [rule('list')] }],
  [
    rbac('ClusterRole', { rules: [] }),
    { rules: [rule('get')] },
    { aggregationRule: { clusterRoleSelectors: [{ matchLabels: { a: 'b' } }] } },
  ],
  [
    rbac('RoleBinding', {
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'role' },
      subjects: [],
    }),
    { subjects: [{ kind: 'User', apiGroup: 'rbac.authorization.k8s.io', name: 'bob' }] },
  ],
  [object('storage.k8s.io/v1', 'StorageClass', { provisioner: 'example.com/disk' }), { allowVolumeExpansion: true }],
  [object('scheduling.k8s.io/v1', 'PriorityClass', { value: 10 }), { description: 'first' }],
  [
    object('admissionregistration.k8s.io/v1', 'ValidatingWebhookConfiguration', { webhooks: [webhook('Ignore')] }),
    { webhooks: [webhook('Fail')] },
    { webhooks: [] },
  ],
  [
    object('admissionregistration.k8s.io/v1', 'MutatingWebhookConfiguration', { webhooks: [webhook('Ignore')] }),
    { webhooks: [webhook('Fail')] },
  ],
  [
    object(
      'apiregistration.k8s.io/v1',
      'APIService',
      { spec: { group: 'none.example.com', version: 'v1', groupPriorityMinimum: 10, versionPriority: 10 } },
      'v1.none.example.com',
    ),
    { spec: { groupPriorityMinimum: 20 } },
  ],
  [
    object('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { spec: definition([]) }, 'keeps.kept.example.com'),
    { spec: definition(['kp']) },
  ],
  [
    widget('any', { size: 1, parts: ['a', 'b'], on: true, deep: { a: { b: null } } }),
    { size: 2 },
    { size: 2.5 },
    { parts: ['b', 'a'] },
    { parts: { a: 1 } },
    { on: null },
    { added: '' },
    { deep: { a: { c: 1 } } },
    { template: { metadata: { annotations: { 'example.com/restartedAt': '1' } } } },
  ],
  [widget('text-in-spec', { spec: 'a' }), { spec: 'b' }, { spec: ['c'] }, { spec: { template: 'd' } }],
  [
    widget('text-in-template', { spec: { template: 'a' } }),
    { spec: { template: 'b' } },
    { spec: { template: ['c'] } },
    { spec: { template: { metadata: 'd' } } },
    { spec: { template: { metadata: { annotations: 'e' } } } },
    { spec: { template: { metadata: { annotations: ['example.com/restartedAt'] } } } },
    { spec: { template: { metadata: { annotations: { size: 1 } } } } },
    { spec: { template: { metadata: { annotations: { size: 2, 'example.com/restartedAt': '1' } } } } },
    { spec: { template: { metadata: { name: 'x' }, spec: 1 }, more: true } },
    { spec: null },
  ],
]
