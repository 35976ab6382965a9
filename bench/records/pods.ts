/** Pods as an API server sends them, 4.8 KB each. */

/** number of Pods of one ReplicaSet, or of one StatefulSet */
const podsOfOwner = 10
const nodes = 1000

export type PodsOf = 'deployments' | 'sets'

/** Returns the JSON of a list's items. */
export function podsJson(from: number, count: number, of: PodsOf): string {
  return JSON.stringify(Array.from({ length: count }, (_, i) => pod(from + i, of)))
}

const uid = (kind: string, i: number) => `${kind.padEnd(8, '0')}-0000-4000-8000-${String(i).padStart(12, '0')}`
const time = '2026-06-01T00:00:00Z'

function pod(i: number, of: PodsOf) {
  const group = Math.floor(i / podsOfOwner)
  const inGroup = i % podsOfOwner
  const app = `service-${group}`
  const isOfSet = of === 'sets'
  const owner = isOfSet ? { kind: 'StatefulSet', name: app } : { kind: 'ReplicaSet', name: `${app}-7d4b9c6f5d` }
  const name = isOfSet ? `${app}-${inGroup}` : `${owner.name}-${String(inGroup).padStart(5, 'x')}`
  const own = isOfSet
    ? { 'statefulset.kubernetes.io/pod-name': name, 'apps.kubernetes.io/pod-index': String(inGroup) }
    : { 'pod-template-hash': '7d4b9c6f5d' }
  const labels = {
    'app.kubernetes.io/name': app,
    'app.kubernetes.io/instance': `${app}-production`,
    'app.kubernetes.io/part-of': `store-${group % 50}`,
    'app.kubernetes.io/managed-by': 'Helm',
    'helm.sh/chart': 'service-1.24.3',
    ...own,
  }
  const condition = (type: string) => ({ type, status: 'True', lastProbeTime: null, lastTransitionTime: time })
  const environment = Array.from({ length: 24 }, (_, n) => ({ name: `SETTING_${n}`, value: `${app} value ${n}` }))
  const probe = (path: string) => ({
    httpGet: { path, port: 'http', scheme: 'HTTP' },
    periodSeconds: 10,
    timeoutSeconds: 1,
  })
  return {
    metadata: {
      name,
      generateName: `${owner.name}-`,
      namespace: `team-${group % 200}`,
      uid: uid('pod', i),
      resourceVersion: String(1_000_000 + i),
      creationTimestamp: time,
      labels,
      annotations: { 'checksum/config': uid('sum', group).repeat(2), 'prometheus.io/scrape': 'true' },
      ownerReferences: [
        { apiVersion: 'apps/v1', ...owner, uid: uid('owner', group), controller: true, blockOwnerDeletion: true },
      ],
      managedFields: [
        {
          manager: 'kube-controller-manager',
          operation: 'Update',
          apiVersion: 'v1',
          time,
          fieldsType: 'FieldsV1',
          fieldsV1: Object.fromEntries(Object.keys(labels).map((label) => [`f:${label}`, { '.': {}, 'f:value': {} }])),
        },
      ],
    },
    spec: {
      volumes: [
        { name: `token-${i}`, projected: { sources: [{ serviceAccountToken: { path: 'token' } }], defaultMode: 420 } },
      ],
      containers: [
        {
          name: 'main',
          image: `registry.example.com/${app}:1.24.3`,
          ports: [{ name: 'http', containerPort: 8080, protocol: 'TCP' }],
          env: environment,
          resources: { limits: { cpu: '500m', memory: '512Mi' }, requests: { cpu: '100m', memory: '256Mi' } },
          volumeMounts: [{ name: `token-${i}`, readOnly: true, mountPath: '/var/run/secrets' }],
          livenessProbe: probe('/health/live'),
          readinessProbe: probe('/health/ready'),
          terminationMessagePath: '/dev/termination-log',
          terminationMessagePolicy: 'File',
          imagePullPolicy: 'IfNotPresent',
        },
      ],
      restartPolicy: 'Always',
      terminationGracePeriodSeconds: 30,
      dnsPolicy: 'ClusterFirst',
      serviceAccountName: app,
      nodeName: `node-${i % nodes}.example.com`,
      securityContext: { runAsNonRoot: true, fsGroup: 1000 },
      schedulerName: 'default-scheduler',
      tolerations: ['not-ready', 'unreachable'].map((key) => ({
        key: `node.kubernetes.io/${key}`,
        operator: 'Exists',
        effect: 'NoExecute',
        tolerationSeconds: 300,
      })),
    },
    status: {
      phase: 'Running',
      conditions: ['Initialized', 'Ready', 'ContainersReady', 'PodScheduled'].map(condition),
      hostIP: '10.0.0.1',
      podIP: `10.${(i >> 16) & 255}.${(i >> 8) & 255}.${i & 255}`,
      startTime: time,
      containerStatuses: [
        {
          name: 'main',
          state: { running: { startedAt: time } },
          lastState: {},
          ready: true,
          restartCount: i % 7 === 0 ? i % 5 : 0,
          image: `registry.example.com/${app}:1.24.3`,
          imageID: `registry.example.com/${app}@sha256:${uid('image', group).repeat(2)}`,
          containerID: `containerd://${uid('run', i).repeat(2)}`,
          started: true,
        },
      ],
      qosClass: 'Burstable',
    },
  }
}
