import { Buffer } from 'node:buffer'
import { webcrypto } from 'node:crypto'
import type { ObjectTree } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import { loadX509 } from '../../../../src/kas/peers/replica-identity.ts'

/**
 * Manifests of every kind that an API server serves and that can be applied, most with few fields. Values are spelt as
 * people write them, and not as the API server stores them: quantities, ports, nulls, empty maps, false, zero.
 */

/** Kinds that can be applied, and that no manifest keeps, each with the reason. */
export const unkeptKinds: Readonly<Record<string, string>> = {
  'v1/Event': 'the API server deletes it after an hour',
  'events.k8s.io/v1/Event': 'the API server deletes it after an hour',
}

const group = 'kinds.example.com'

/** Namespace of the objects that have one. */
export const kindsNamespace = 'idle'

/** Returns a definition of a custom kind. @param subresources - of its version */
function definition(plural: string, kind: string, subresources: object): ObjectTree {
  const free = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }
  const spec = {
    ...free,
    properties: {
      withDefault: { type: 'integer', default: 7 },
      port: { 'x-kubernetes-int-or-string': true },
      optional: { type: 'string', nullable: true },
      set: { type: 'array', 'x-kubernetes-list-type': 'set', items: { type: 'string' } },
      map: {
        type: 'array',
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['name'],
        items: {
          type: 'object',
          required: ['name'],
          properties: { name: { type: 'string' }, of: { default: 'x', type: 'string' } },
        },
      },
    },
  }
  const openAPIV3Schema = { type: 'object', properties: { spec, status: free } }
  const version = { name: 'v1', served: true, storage: true, subresources, schema: { openAPIV3Schema } }
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}` },
    spec: { group, scope: 'Namespaced', names: { plural, kind, singular: kind.toLowerCase() }, versions: [version] },
  }
}

const crewScale = {
  status: {},
  scale: {
    specReplicasPath: '.spec.workers.size',
    statusReplicasPath: '.status.replicas',
    labelSelectorPath: '.status.selector',
  },
}

const container = {
  name: 'web',
  image: 'nginx:1',
  command: null,
  args: [],
  env: [
    { name: 'A', value: '1' },
    { name: 'EMPTY', value: '' },
    { name: 'NULL', value: null },
  ],
  ports: [{ containerPort: 80 }, { name: 'dns', containerPort: 53, protocol: 'UDP' }],
  resources: { limits: { cpu: '1000m', memory: '0.5Gi' }, requests: { cpu: 0.1, memory: '128974848' } },
  securityContext: {},
  volumeMounts: [{ name: 'empty', mountPath: '/empty' }],
}
const podSpec = {
  containers: [container],
  volumes: [{ name: 'empty', emptyDir: {} }],
  nodeSelector: null,
  tolerations: null,
  securityContext: {},
  hostNetwork: false,
}
const metadataOf = (app: string) => ({ labels: { app }, annotations: {}, creationTimestamp: null })
const templateOf = (app: string, more: object = {}) => ({ metadata: metadataOf(app), spec: { ...podSpec, ...more } })
const labelled = (app: string) => ({ selector: { matchLabels: { app } }, template: templateOf(app) })
const onNothing = { apiGroups: ['nope.example.com'], apiVersions: ['v1'], operations: ['CREATE'], resources: ['nopes'] }
const webhook = {
  name: 'nope.example.com',
  sideEffects: 'None',
  admissionReviewVersions: ['v1'],
  clientConfig: { service: { name: 'nope', namespace: kindsNamespace } },
  rules: [onNothing],
}
const pullJob = { template: { spec: { ...podSpec, restartPolicy: 'Never' } } }
const devices = { requests: [{ name: 'a', exactly: { deviceClassName: 'plain' } }] }

/** Content of one object of each kind, by `apiVersion/kind`; more than one: a list. The name is `plain` if it has none. */
const contents: Readonly<Record<string, ObjectTree | readonly ObjectTree[]>> = {
  'apps/v1/Deployment': {
    metadata: { labels: { app: 'plain', tier: null }, annotations: null },
    spec: { ...labelled('deployment'), replicas: 1, minReadySeconds: 0, paused: false, strategy: null },
  },
  'apps/v1/StatefulSet': {
    spec: {
      serviceName: 'headless',
      ...labelled('stateful'),
      volumeClaimTemplates: [
        {
          metadata: { name: 'data' },
          spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1024Mi' } } },
        },
      ],
    },
  },
  'apps/v1/DaemonSet': { spec: labelled('daemon') },
  'apps/v1/ReplicaSet': { spec: { replicas: 1, ...labelled('replica') } },
  'apps/v1/ControllerRevision': { revision: 1, data: { spec: { a: 1, none: null, empty: {} } } },
  'v1/ReplicationController': {
    spec: { replicas: 1, selector: { app: 'replication' }, template: templateOf('replication') },
  },
  'batch/v1/Job': { spec: { ...pullJob, suspend: false, backoffLimit: 0 } },
  'batch/v1/CronJob': { spec: { schedule: '*/1 * * * *', suspend: false, jobTemplate: { spec: pullJob } } },
  'v1/Pod': { spec: podSpec },
  'v1/PodTemplate': { template: templateOf('template') },
  'v1/Service': [
    { spec: { selector: { app: 'deployment' }, ports: [{ port: 80 }], sessionAffinity: null } },
    {
      metadata: { name: 'ports' },
      spec: {
        type: 'NodePort',
        selector: { app: 'deployment' },
        ports: [
          { name: 'a', port: 80, targetPort: 'dns' },
          { name: 'b', port: 81, protocol: 'UDP' },
        ],
      },
    },
    {
      metadata: { name: 'balancer' },
      spec: { type: 'LoadBalancer', selector: {}, ports: [{ port: 443, targetPort: 8443 }] },
    },
    {
      metadata: { name: 'headless' },
      spec: { clusterIP: 'None', selector: { app: 'stateful' }, ports: [{ port: 80 }] },
    },
  ],
  'v1/ConfigMap': [
    { data: { a: '1', none: null, empty: '' }, binaryData: { b: 'AAE=' } },
    { metadata: { name: 'empty' }, data: {}, binaryData: null },
    { metadata: { name: 'immutable' }, data: { a: '1' }, immutable: true },
  ],
  'v1/Secret': [
    { data: { a: 'MQ==' }, stringData: { b: '2', empty: '' } },
    { metadata: { name: 'tls' }, type: 'kubernetes.io/tls', data: { 'tls.crt': 'MQ==', 'tls.key': 'MQ==' } },
    {
      metadata: { name: 'token', annotations: { 'kubernetes.io/service-account.name': 'plain' } },
      type: 'kubernetes.io/service-account-token',
    },
  ],
  'v1/ServiceAccount': { automountServiceAccountToken: false, secrets: null },
  'v1/PersistentVolumeClaim': {
    spec: { accessModes: ['ReadWriteOnce'], storageClassName: '', resources: { requests: { storage: '1024Mi' } } },
  },
  'v1/PersistentVolume': {
    spec: { capacity: { storage: '1024Mi' }, accessModes: ['ReadWriteOnce'], hostPath: { path: '/nothing' } },
  },
  'v1/Namespace': { metadata: { name: 'idle-plain' } },
  'v1/Node': { metadata: { name: 'idle-node', labels: { disk: 'ssd' } }, spec: { unschedulable: true } },
  'v1/ResourceQuota': { spec: { hard: { pods: '1000', 'requests.storage': '1024Gi', 'count/secrets': 1000 } } },
  'v1/LimitRange': {
    spec: { limits: [{ type: 'Container', defaultRequest: { cpu: '0.01' }, max: { memory: '1024Mi' } }] },
  },
  'v1/Endpoints': {
    metadata: { name: 'outside' },
    subsets: [
      {
        addresses: [{ ip: '198.18.9.2' }, { ip: '198.18.9.1' }],
        ports: [
          { name: 'b', port: 81 },
          { name: 'a', port: 80 },
        ],
      },
    ],
  },
  'discovery.k8s.io/v1/EndpointSlice': {
    metadata: { name: 'outside-1' },
    addressType: 'IPv4',
    endpoints: [{ addresses: ['198.18.9.2'] }, { addresses: ['198.18.9.1'], conditions: {} }],
    ports: [{ port: 80 }],
  },
  'networking.k8s.io/v1/Ingress': {
    spec: {
      tls: null,
      rules: [
        {
          host: 'a.example.com',
          http: {
            paths: [{ path: '/', pathType: 'Prefix', backend: { service: { name: 'plain', port: { number: 80 } } } }],
          },
        },
      ],
    },
  },
  'networking.k8s.io/v1/IngressClass': { spec: { controller: 'example.com/x' } },
  'networking.k8s.io/v1/NetworkPolicy': { spec: { podSelector: {}, ingress: [{ ports: [{ port: 80 }] }], egress: [] } },
  'networking.k8s.io/v1/IPAddress': {
    metadata: { name: '10.9.0.77' },
    spec: { parentRef: { resource: 'services', namespace: kindsNamespace, name: 'plain' } },
  },
  'networking.k8s.io/v1/ServiceCIDR': { spec: { cidrs: ['10.9.0.0/24'] } },
  'rbac.authorization.k8s.io/v1/Role': { rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['get'] }] },
  'rbac.authorization.k8s.io/v1/RoleBinding': {
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'plain' },
    subjects: [
      { kind: 'User', name: 'ada' },
      { kind: 'ServiceAccount', name: 'plain', namespace: kindsNamespace },
    ],
  },
  'rbac.authorization.k8s.io/v1/ClusterRole': [
    { metadata: { name: 'idle-empty' }, rules: [] },
    {
      metadata: { name: 'idle-sum' },
      aggregationRule: {
        clusterRoleSelectors: [{ matchLabels: { 'rbac.authorization.k8s.io/aggregate-to-view': 'true' } }],
      },
      rules: [],
    },
  ],
  'rbac.authorization.k8s.io/v1/ClusterRoleBinding': {
    metadata: { name: 'idle-plain' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'idle-empty' },
    subjects: [{ kind: 'ServiceAccount', name: 'plain', namespace: kindsNamespace }],
  },
  'autoscaling/v1/HorizontalPodAutoscaler': {
    metadata: { name: 'nobody' },
    spec: {
      scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'nobody' },
      maxReplicas: 3,
      targetCPUUtilizationPercentage: 50,
    },
  },
  'policy/v1/PodDisruptionBudget': { spec: { minAvailable: '50%', selector: { matchLabels: { app: 'deployment' } } } },
  'storage.k8s.io/v1/StorageClass': { provisioner: 'example.com/x', mountOptions: null },
  'storage.k8s.io/v1/CSIDriver': { metadata: { name: 'plain.example.com' }, spec: {} },
  'storage.k8s.io/v1/CSINode': { metadata: { name: 'idle-node' }, spec: { drivers: [] } },
  'storage.k8s.io/v1/CSIStorageCapacity': { storageClassName: 'plain', capacity: '1024Mi' },
  'storage.k8s.io/v1/VolumeAttachment': {
    spec: { attacher: 'plain.example.com', nodeName: 'idle-node', source: { persistentVolumeName: 'plain' } },
  },
  'storage.k8s.io/v1/VolumeAttributesClass': { driverName: 'plain.example.com', parameters: { a: 'b' } },
  'scheduling.k8s.io/v1/PriorityClass': { value: 10, globalDefault: false, description: '' },
  'node.k8s.io/v1/RuntimeClass': { handler: 'x', overhead: { podFixed: { cpu: '0.1', memory: '1024Ki' } } },
  'coordination.k8s.io/v1/Lease': { spec: { holderIdentity: 'x', leaseDurationSeconds: 10 } },
  'admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration': { webhooks: [webhook] },
  'admissionregistration.k8s.io/v1/MutatingWebhookConfiguration': { webhooks: [webhook] },
  'admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy': {
    spec: { matchConstraints: { resourceRules: [onNothing] }, validations: [{ expression: 'true' }] },
  },
  'admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding': {
    spec: { policyName: 'plain', validationActions: ['Deny'] },
  },
  'flowcontrol.apiserver.k8s.io/v1/FlowSchema': {
    spec: {
      priorityLevelConfiguration: { name: 'catch-all' },
      rules: [
        {
          subjects: [{ kind: 'User', user: { name: 'ada' } }],
          resourceRules: [{ verbs: ['get'], apiGroups: [''], resources: ['pods'], namespaces: ['*'] }],
        },
      ],
    },
  },
  'flowcontrol.apiserver.k8s.io/v1/PriorityLevelConfiguration': {
    spec: { type: 'Limited', limited: { limitResponse: { type: 'Reject' } } },
  },
  'resource.k8s.io/v1/DeviceClass': { spec: { selectors: [{ cel: { expression: 'device.driver == "x"' } }] } },
  'resource.k8s.io/v1/ResourceClaim': { spec: { devices } },
  'resource.k8s.io/v1/ResourceClaimTemplate': { spec: { spec: { devices } } },
  'resource.k8s.io/v1/ResourceSlice': {
    spec: {
      driver: 'plain.example.com',
      pool: { name: 'plain', generation: 1, resourceSliceCount: 1 },
      allNodes: true,
      devices: [{ name: 'a', capacity: { memory: { value: '1024Mi' } } }],
    },
  },
  [`${group}/v1/Thing`]: {
    spec: {
      port: '80',
      optional: null,
      set: ['b', 'a'],
      map: [{ name: 'b' }, { name: 'a', of: 'y' }],
      free: { none: null, empty: {}, list: [], number: 1, deep: [{ a: null }] },
    },
  },
}

/** Returns the manifests. Beside them the source has definitions of Thing and Crew, autoscalers and an APIService. */
export async function everyKind(): Promise<readonly ObjectTree[]> {
  const request = { 'certificates.k8s.io/v1/CertificateSigningRequest': await signingRequest() }
  const plain = Object.entries({ ...contents, ...request }).flatMap(([name, all]) =>
    [all].flat().map(({ metadata, ...content }) => {
      const [, apiVersion, kind] = /^(.+)\/([^/]+)$/.exec(name) ?? []
      return { apiVersion, kind, metadata: { name: 'plain', ...(metadata as object) }, ...content }
    }),
  )
  return [definition('things', 'Thing', { status: {} }), definition('crews', 'Crew', crewScale), ...plain]
}

/** A scaled kind, in whose definition the number of replicas is `spec.workers.size`. */
export const crew = (name: string, size: number): ObjectTree => ({
  apiVersion: `${group}/v1`,
  kind: 'Crew',
  metadata: { name },
  spec: { workers: { size } },
})

/** An autoscaler that follows a metric of the same name, at once in both directions, in 2 to 9 replicas. */
export function autoscaler({
  apiVersion,
  kind,
  name,
}: Readonly<Record<'apiVersion' | 'kind' | 'name', string>>): ObjectTree {
  const at = { stabilizationWindowSeconds: 0, policies: [{ type: 'Pods', value: 100, periodSeconds: 1 }] }
  const target = { type: 'AverageValue', averageValue: '1' }
  return {
    apiVersion: 'autoscaling/v2',
    kind: 'HorizontalPodAutoscaler',
    metadata: { name },
    spec: {
      scaleTargetRef: { apiVersion, kind, name },
      minReplicas: 2,
      maxReplicas: 9,
      metrics: [{ type: 'External', external: { metric: { name }, target } }],
      behavior: { scaleUp: at, scaleDown: at },
    },
  }
}

export const deploymentOf = (name: string, spec: object = {}, metadata: object = {}): ObjectTree => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name, ...metadata },
  spec: { ...labelled(name), ...spec },
})

export const statefulSetOf = (name: string, spec: object = {}): ObjectTree => ({
  apiVersion: 'apps/v1',
  kind: 'StatefulSet',
  metadata: { name },
  spec: { serviceName: name, ...labelled(name), ...spec },
})

/** Content of a request for a certificate. Nobody signs it. */
async function signingRequest(): Promise<ObjectTree> {
  const { Pkcs10CertificateRequestGenerator } = await loadX509()
  const signingAlgorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
  const keys = await webcrypto.subtle.generateKey(signingAlgorithm, true, ['sign', 'verify'])
  const made = await Pkcs10CertificateRequestGenerator.create({ name: 'CN=idle', keys, signingAlgorithm })
  const request = Buffer.from(made.toString('pem')).toString('base64')
  return { spec: { request, signerName: 'example.com/idle', usages: ['client auth'] } }
}
