import type { KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import { patience } from '../slowness.ts'
import { collectionOf, emptyRegistry, pathOf } from './node-cluster.ts'
import type { NodesGround } from './nodes-ground.ts'
import {
  container,
  deadApiService,
  deployment,
  ingress,
  job,
  namespaceOf,
  neverReady,
  podSpec,
  quota,
  server,
  service,
  serving,
  statefulSet,
} from './workloads.ts'

/** A state of an object that shows a breakage. */
export interface Sign {
  /** path of a collection */
  readonly path: string
  readonly holds: (object: KubernetesObject) => boolean
}

/** A breakage in a cluster, and the cause that a viewer must get. Each plays in the namespace of its name. */
export interface Breakage {
  /** name in the shared situations */
  readonly name: string
  /** created in this order, once the namespace exists */
  readonly objects: readonly KubernetesObject[]
  /** called once the objects exist */
  readonly breaks?: (ground: NodesGround) => Promise<void>
  /** the API server has the breakage as soon as this holds */
  readonly sign: Sign
  readonly root: readonly [kind: string, name: string]
  readonly reason: string
  readonly culprit: readonly [kind: string, name: RegExp]
  readonly includes: readonly string[]
  readonly next: RegExp
  /** number of objects that fail by it; absent: 1 */
  readonly count?: number
  /** begin of the state by its object; absent: no object has it */
  readonly since?: (sign: KubernetesObject) => string | undefined
  /**
   * no object in the cluster has the time: a viewer that has not seen the begin gets the begin of the failure that it
   * explains
   */
  readonly isSeenAlone?: true
  /** It is Degraded after a minute at most; absent: later than a test waits. */
  readonly isDegradedSoon?: true
}

type Condition = Readonly<Record<'type' | 'status' | 'reason' | 'lastTransitionTime', string>>

const conditionOf = ({ status }: KubernetesObject, type: string): Condition | undefined =>
  (status?.conditions ?? []).find((one: Condition) => one.type === type)
const changeOf = (type: string) => (object: KubernetesObject) => conditionOf(object, type)?.lastTransitionTime
const is = (type: string, status: string) => (object: KubernetesObject) => conditionOf(object, type)?.status === status
const createdOf = ({ metadata }: KubernetesObject): string => metadata.creationTimestamp

const pods = (namespace: string) => `/api/v1/namespaces/${namespace}/pods`
const jobs = (namespace: string) => `/apis/batch/v1/namespaces/${namespace}/jobs`
const replicaSets = (namespace: string) => `/apis/apps/v1/namespaces/${namespace}/replicasets`

const podWaits =
  (...reasons: readonly string[]) =>
  ({ status }: KubernetesObject) =>
    (status.containerStatuses ?? []).some(({ state }: KubernetesObject) => reasons.includes(state.waiting?.reason))

const hasEnded =
  (list: string) =>
  ({ status }: KubernetesObject) =>
    (status[list] ?? []).some(
      ({ state, lastState }: KubernetesObject) => (state.terminated ?? lastState.terminated) !== undefined,
    )

const refusedReplicaSet = (namespace: string): Sign => ({
  path: replicaSets(namespace),
  holds: is('ReplicaFailure', 'True'),
})

const failedJob = (namespace: string): Sign => ({ path: jobs(namespace), holds: is('Failed', 'True') })

const refusedByEvent = (namespace: string): Sign => ({
  path: `/api/v1/namespaces/${namespace}/events`,
  holds: ({ reason }) => reason === 'FailedCreate',
})

/** Number of the node that dies, on which nothing else runs. */
export const doomedNode = 2
const doomed = { key: 'doomed', effect: 'NoSchedule' }

/** Reserves the node for the Pods that must be lost with it. */
export async function reserveDoomedNode({ cluster }: Pick<NodesGround, 'cluster'>): Promise<void> {
  const body = { spec: { taints: [doomed] } }
  const path = `/api/v1/nodes/node-${doomedNode}`
  const answer = await cluster.admin.request(path, {
    method: 'PATCH',
    contentType: 'application/strategic-merge-patch+json',
    body,
  })
  if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.body}`)
}

const isReady = ({ spec, status }: KubernetesObject) => status.readyReplicas === spec.replicas
const untilReady = ({ cluster }: NodesGround, object: KubernetesObject) =>
  cluster.admin.until(
    collectionOf(object),
    (one) => one.metadata.name === object.metadata.name && isReady(one),
    AbortSignal.timeout(patience(60_000)),
  )

const imageNotFound = 'image-not-found'
const oom = 'oom-after-ready'
const init = 'init-container-crashes'
const unready = 'readiness-fails-past-the-deadline'
const noMap = 'config-map-missing'
const tooBig = 'too-big-for-any-node'
const noClass = 'claim-without-storage-class'
const noAccount = 'service-account-missing'
const noWebhook = 'webhook-down'
const overQuota = 'quota-exceeded'
const jobFails = 'job-fails'
const cron = 'cron-job-never-succeeds'
const noMetrics = 'hpa-without-metrics'
const deadNode = 'node-dead'
const noBackend = 'ingress-to-nothing'
const selectsNothing = 'service-selects-nothing'
const held = 'namespace-held-by-api-service'
const finalizer = 'config-map-held-by-finalizer'

const spotty = deployment({
  namespace: deadNode,
  name: 'spotty',
  pod: podSpec({
    nodeSelector: { 'kubernetes.io/hostname': `node-${doomedNode}` },
    tolerations: [{ operator: 'Exists' }],
  }),
})
const front = deployment({ namespace: overQuota, name: 'front', replicas: 1 })
const cronJob: KubernetesObject = {
  apiVersion: 'batch/v1',
  kind: 'CronJob',
  metadata: { name: 'backup', namespace: cron },
  spec: { schedule: '0 3 * * *', jobTemplate: { spec: job({ namespace: cron, script: 'exit 2' }).spec } },
}
const stuck: KubernetesObject = {
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'stuck', namespace: finalizer, finalizers: ['example.com/cleanup'] },
}

/** The first eighteen of the shared situations. */
export const breakages: readonly Breakage[] = [
  {
    name: deadNode,
    objects: [spotty],
    breaks: async (ground) => {
      await untilReady(ground, spotty)
      await ground.cluster.killKubelet(doomedNode)
    },
    sign: {
      path: '/api/v1/nodes',
      holds: (node) => node.metadata.name === `node-${doomedNode}` && is('Ready', 'Unknown')(node),
    },
    root: ['apps/Deployment', 'spotty'],
    reason: 'NodeUnreachable',
    culprit: ['Node', new RegExp(`^node-${doomedNode}$`)],
    includes: ['Kubelet stopped posting node status'],
    next: /^kubectl describe node node-\d$/,
    count: 2,
    since: changeOf('Ready'),
    isDegradedSoon: true,
  },
  {
    name: oom,
    objects: [
      service(oom, 'crash'),
      deployment({
        namespace: oom,
        name: 'crash',
        pod: podSpec({
          containers: [
            server({
              script: serving({ beside: 'sleep 2; exec tail /dev/zero' }),
              more: { resources: { limits: { memory: '16Mi' } } },
            }),
          ],
        }),
      }),
    ],
    sign: { path: pods(oom), holds: hasEnded('containerStatuses') },
    root: ['apps/Deployment', 'crash'],
    reason: 'OOMKilled',
    culprit: ['Pod', /^crash-/],
    includes: ['container main: out of memory (memory limit 16Mi), exit code 137 (OOMKilled)', 'restart'],
    next: /^kubectl -n \S+ logs crash-\S+ -c main --previous$/,
    count: 2,
    isDegradedSoon: true,
  },
  {
    name: init,
    objects: [
      deployment({
        namespace: init,
        name: 'api',
        pod: podSpec({ initContainers: [container({ name: 'migrate', script: 'echo migration 42 failed; exit 1' })] }),
      }),
    ],
    sign: { path: pods(init), holds: hasEnded('initContainerStatuses') },
    root: ['apps/Deployment', 'api'],
    reason: 'CrashLoopBackOff',
    culprit: ['Pod', /^api-/],
    includes: ['container migrate: exit code 1'],
    next: /^kubectl -n \S+ logs api-\S+ -c migrate --previous$/,
    count: 2,
    since: changeOf('Ready'),
    isDegradedSoon: true,
  },
  {
    name: imageNotFound,
    objects: [
      deployment({
        namespace: imageNotFound,
        pod: podSpec({ containers: [server({ more: { image: `${emptyRegistry}/shop/web:1.4.2` } })] }),
      }),
    ],
    sign: { path: pods(imageNotFound), holds: podWaits('ErrImagePull', 'ImagePullBackOff') },
    root: ['apps/Deployment', 'web'],
    reason: 'ImageNotFound',
    culprit: ['Pod', /^web-/],
    includes: [`${emptyRegistry}/shop/web:1.4.2`, 'not found'],
    next: /^kubectl -n \S+ describe pod web-/,
    count: 2,
    since: changeOf('Ready'),
    isDegradedSoon: true,
  },
  {
    name: unready,
    objects: [
      deployment({
        namespace: unready,
        name: 'cart',
        pod: podSpec({ containers: [server({ script: neverReady })] }),
        spec: { progressDeadlineSeconds: 5 },
      }),
    ],
    sign: { path: `/api/v1/namespaces/${unready}/events`, holds: ({ reason }) => reason === 'Unhealthy' },
    root: ['apps/Deployment', 'cart'],
    reason: 'ReadinessProbeFailed',
    culprit: ['Pod', /^cart-/],
    includes: ['404'],
    next: /^kubectl -n \S+ logs cart-\S+ -c main --since=5m$/,
    count: 2,
    isDegradedSoon: true,
  },
  {
    name: noMap,
    objects: [
      deployment({
        namespace: noMap,
        name: 'mail',
        pod: podSpec({ containers: [server({ more: { envFrom: [{ configMapRef: { name: 'settings' } }] } })] }),
      }),
    ],
    sign: { path: pods(noMap), holds: podWaits('CreateContainerConfigError') },
    root: ['apps/Deployment', 'mail'],
    reason: 'CreateContainerConfigError',
    culprit: ['Pod', /^mail-/],
    includes: ['configmap "settings" not found'],
    next: /^kubectl -n \S+ get configmap settings$/,
    count: 2,
    since: changeOf('Ready'),
    isDegradedSoon: true,
  },
  {
    name: tooBig,
    objects: [
      deployment({
        namespace: tooBig,
        name: 'report',
        replicas: 1,
        pod: podSpec({ containers: [server({ more: { resources: { requests: { memory: '1Ti' } } } })] }),
      }),
    ],
    sign: { path: pods(tooBig), holds: is('PodScheduled', 'False') },
    root: ['apps/Deployment', 'report'],
    reason: 'Unschedulable',
    culprit: ['Pod', /^report-/],
    includes: ['Insufficient memory'],
    next: /^kubectl -n \S+ describe pod report-/,
    since: changeOf('PodScheduled'),
  },
  {
    name: noClass,
    objects: [
      service(noClass, 'db'),
      statefulSet({
        namespace: noClass,
        name: 'db',
        replicas: 1,
        spec: {
          volumeClaimTemplates: [
            {
              metadata: { name: 'data' },
              spec: {
                accessModes: ['ReadWriteOnce'],
                storageClassName: 'fast',
                resources: { requests: { storage: '1Gi' } },
              },
            },
          ],
        },
      }),
    ],
    sign: { path: `/api/v1/namespaces/${noClass}/persistentvolumeclaims`, holds: () => true },
    root: ['apps/StatefulSet', 'db'],
    reason: 'StorageClassMissing',
    culprit: ['PersistentVolumeClaim', /^data-db-0$/],
    includes: ['fast'],
    next: /^kubectl get storageclasses$/,
    since: createdOf,
    isDegradedSoon: true,
  },
  {
    name: noAccount,
    objects: [deployment({ namespace: noAccount, name: 'pay', pod: podSpec({ serviceAccountName: 'payments' }) })],
    sign: refusedReplicaSet(noAccount),
    root: ['apps/Deployment', 'pay'],
    reason: 'ServiceAccountMissing',
    culprit: ['apps/ReplicaSet', /^pay-/],
    includes: ['serviceaccount "payments" not found'],
    next: /^kubectl -n \S+ get serviceaccount payments$/,
    count: 2,
    since: changeOf('ReplicaFailure'),
    isDegradedSoon: true,
  },
  {
    name: noWebhook,
    objects: [
      {
        apiVersion: 'admissionregistration.k8s.io/v1',
        kind: 'ValidatingWebhookConfiguration',
        metadata: { name: 'policy' },
        webhooks: [
          {
            name: 'validate.policy.example.com',
            clientConfig: { service: { namespace: noWebhook, name: 'policy-webhook', path: '/validate' } },
            rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] }],
            namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': noWebhook } },
            sideEffects: 'None',
            admissionReviewVersions: ['v1'],
          },
        ],
      },
      deployment({ namespace: noWebhook, name: 'shop' }),
    ],
    sign: refusedReplicaSet(noWebhook),
    root: ['apps/Deployment', 'shop'],
    reason: 'WebhookServiceMissing',
    culprit: ['admissionregistration.k8s.io/ValidatingWebhookConfiguration', /^policy$/],
    includes: ['policy-webhook'],
    next: /^kubectl describe validatingwebhookconfiguration.admissionregistration.k8s.io policy$/,
    count: 2,
    isSeenAlone: true,
    isDegradedSoon: true,
  },
  {
    name: overQuota,
    objects: [quota(overQuota, 1), front],
    breaks: async (ground) => {
      await untilReady(ground, front)
      const cache = statefulSet({ namespace: overQuota, name: 'cache', replicas: 1 })
      await ground.cluster.create(service(overQuota, 'cache'), cache)
    },
    sign: {
      ...refusedByEvent(overQuota),
      holds: ({ reason, involvedObject }) => reason === 'FailedCreate' && involvedObject.name === 'cache',
    },
    root: ['apps/StatefulSet', 'cache'],
    reason: 'QuotaExceeded',
    culprit: ['apps/StatefulSet', /^cache$/],
    includes: ['exceeded quota: compute', 'used: pods=1'],
    next: /^kubectl -n \S+ describe resourcequota compute$/,
    since: ({ firstTimestamp }) => firstTimestamp,
    isDegradedSoon: true,
  },
  {
    name: jobFails,
    objects: [
      job(
        { namespace: jobFails, name: 'migrate', script: 'echo migration 42 failed; exit 3' },
        { spec: { backoffLimit: 0 } },
      ),
    ],
    sign: failedJob(jobFails),
    root: ['batch/Job', 'migrate'],
    reason: 'NonZeroExit',
    culprit: ['Pod', /^migrate-/],
    includes: ['exit code 3', 'migration 42 failed'],
    next: /^kubectl -n \S+ logs migrate-\S+ -c main$/,
    isDegradedSoon: true,
  },
  {
    name: cron,
    objects: [cronJob],
    breaks: async ({ cluster }) => {
      // as `kubectl create job --from=cronjob/backup` does
      const { metadata } = await cluster.admin.get(pathOf(cronJob))
      const { apiVersion, kind } = cronJob
      const owner = { apiVersion, kind, name: 'backup', uid: metadata.uid, controller: true }
      const run = { namespace: cron, name: 'backup-1', script: 'echo no space left; exit 2' }
      await cluster.create(job(run, { spec: { backoffLimit: 0 }, metadata: { ownerReferences: [owner] } }))
    },
    sign: failedJob(cron),
    root: ['batch/CronJob', 'backup'],
    reason: 'NonZeroExit',
    culprit: ['Pod', /^backup-1-/],
    includes: ['exit code 2', 'no space left'],
    next: /^kubectl -n \S+ logs backup-1-\S+ -c main$/,
    isDegradedSoon: true,
  },
  {
    name: noMetrics,
    objects: [
      deadApiService('metrics.k8s.io', 'metrics-server'),
      deployment({
        namespace: noMetrics,
        replicas: 1,
        pod: podSpec({ containers: [server({ more: { resources: { requests: { cpu: '1m' } } } })] }),
      }),
      {
        apiVersion: 'autoscaling/v2',
        kind: 'HorizontalPodAutoscaler',
        metadata: { name: 'web', namespace: noMetrics },
        spec: {
          scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web' },
          minReplicas: 1,
          maxReplicas: 2,
          metrics: [
            { type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 50 } } },
          ],
        },
      },
    ],
    sign: {
      path: `/apis/autoscaling/v2/namespaces/${noMetrics}/horizontalpodautoscalers`,
      holds: is('ScalingActive', 'False'),
    },
    root: ['autoscaling/HorizontalPodAutoscaler', 'web'],
    reason: 'ServiceNotFound',
    culprit: ['apiregistration.k8s.io/APIService', /^v1beta1.metrics.k8s.io$/],
    includes: ['metrics-server'],
    next: /^kubectl describe apiservice.apiregistration.k8s.io v1beta1.metrics.k8s.io$/,
  },
  {
    name: noBackend,
    objects: [service(noBackend), deployment({ namespace: noBackend }), ingress(noBackend, 'shop', 'wbe')],
    sign: { path: `/apis/networking.k8s.io/v1/namespaces/${noBackend}/ingresses`, holds: () => true },
    root: ['networking.k8s.io/Ingress', 'shop'],
    reason: 'BackendMissing',
    culprit: ['networking.k8s.io/Ingress', /^shop$/],
    includes: ['wbe'],
    next: /^kubectl -n \S+ get services$/,
    isDegradedSoon: true,
  },
  {
    name: selectsNothing,
    objects: [deployment({ namespace: selectsNothing, replicas: 1 }), service(selectsNothing, 'typo', { app: 'wbe' })],
    sign: {
      path: `/api/v1/namespaces/${selectsNothing}/services`,
      holds: ({ metadata }) => metadata.name === 'typo',
    },
    root: ['Service', 'typo'],
    reason: 'SelectsNothing',
    culprit: ['Service', /^typo$/],
    includes: ['app=wbe'],
    next: /^kubectl -n \S+ get pods --show-labels$/,
    isDegradedSoon: true,
  },
  {
    name: held,
    objects: [deadApiService('custom.metrics.k8s.io', 'prometheus-adapter')],
    breaks: async ({ cluster }) => {
      await cluster.admin.request(pathOf(namespaceOf(held)), { method: 'DELETE' })
    },
    sign: {
      path: '/api/v1/namespaces',
      holds: (one) => one.metadata.name === held && is('NamespaceDeletionDiscoveryFailure', 'True')(one),
    },
    root: ['Namespace', held],
    reason: 'ServiceNotFound',
    // the other unavailable APIService keeps it, too
    culprit: ['apiregistration.k8s.io/APIService', /^v1beta1.(?:custom.)?metrics.k8s.io$/],
    includes: [' in "kube-system" is not present'],
    next: /^kubectl describe apiservice.apiregistration.k8s.io v1beta1./,
  },
  {
    name: finalizer,
    objects: [stuck],
    breaks: async ({ cluster }) => {
      await cluster.admin.request(pathOf(stuck), { method: 'DELETE' })
    },
    sign: {
      path: `/api/v1/namespaces/${finalizer}/configmaps`,
      holds: ({ metadata }) => metadata.deletionTimestamp !== undefined,
    },
    root: ['ConfigMap', 'stuck'],
    reason: 'DeletionBlocked',
    culprit: ['ConfigMap', /^stuck$/],
    includes: ['example.com/cleanup'],
    next: /^kubectl -n \S+ get configmap stuck -o jsonpath=\{\.metadata\.managedFields\[\*\]\.manager\}$/,
    since: ({ metadata }) => metadata.deletionTimestamp,
  },
]
