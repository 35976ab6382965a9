import t from 'tap'
import type { KubernetesObject } from '../../../../../src/kubernetes/object.ts'
import { ago, condition, ended, event, judge, now, object, ownedBy, pod, running, summary, waiting } from './world.ts'

const conditions = (...list: object[]) => ({ status: { conditions: list } })
const deployment = object(
  'apps/Deployment',
  'web',
  { spec: { replicas: 3 }, status: { observedGeneration: 1, updatedReplicas: 3, replicas: 3 } },
  { generation: 1 },
)
const replicaSet = (
  name: string,
  revision: string,
  rest: Readonly<Record<string, unknown>> = { spec: { replicas: 0 }, status: {} },
) =>
  ownedBy(
    deployment,
    object('apps/ReplicaSet', name, rest, { annotations: { 'deployment.kubernetes.io/revision': revision } }),
  )
const current = replicaSet('web-2', '10')
const old = replicaSet('web-1', '9')
const bad = (name: string, reason = 'InvalidImageName', seconds = 300) =>
  pod({ name, ready: ['False', seconds], container: waiting(reason, 'because') })
const under = (owner: KubernetesObject, ...pods: readonly KubernetesObject[]) => pods.map((one) => ownedBy(owner, one))
const starting = (name: string) => pod({ name, container: { started: false, state: running(5) } })

t.test('what counts for the parent', async (t) => {
  const web = (...pods: readonly KubernetesObject[]) => summary(judge([deployment, current, old, ...pods]))
  t.equal(web(...under(current, bad('a'))), 'Degraded InvalidImageName')
  t.equal(web(...under(old, bad('a'))), 'Progressing RollingOut', 'a revision before is silent')
  t.equal(
    web(...under(current, pod({ name: 'a', phase: 'Failed', status: { reason: 'Evicted' } }))),
    'Progressing RollingOut',
  )
  const ending = pod({ name: 'a', metadata: { deletionTimestamp: ago(900) } })
  t.equal(web(...under(current, ending)), 'Progressing RollingOut', 'what ends is silent')
  t.equal(web(...under(current, starting('a'))), 'Progressing Starting')

  const set = object('apps/StatefulSet', 'set', {
    spec: { volumeClaimTemplates: [{ metadata: { name: 'data' } }] },
    status: { observedGeneration: 1 },
  })
  const claim = object('PersistentVolumeClaim', 'data-set-0', { spec: {}, status: { phase: 'Lost' } })
  t.equal(summary(judge([set, claim])), 'Degraded VolumeLost')
  t.equal(
    summary(judge([set, ...under(set, ending)])),
    'Degraded TerminatingStuck',
    'a StatefulSet waits for what ends',
  )

  const job = (...list: object[]) => object('batch/Job', 'job', { status: { startTime: ago(60), conditions: list } })
  const failed = pod({ phase: 'Failed', container: { state: ended(1, 'Error', 20, 10) } })
  t.equal(summary(judge([job(), ...under(job(), failed)])), 'Progressing NonZeroExit')
  const over = job(condition('Failed', 'True', 5, 'BackoffLimitExceeded', 'limit'))
  t.equal(summary(judge([over, ...under(over, failed)])), 'Degraded NonZeroExit')
  const complete = job(condition('Complete', 'True', 5))
  t.equal(summary(judge([complete, ...under(complete, failed)])), 'Healthy')
})

t.test(
  'parents: summaries and those without an opinion are as bad as what they count, operators have the last word',
  async (t) => {
    const broken = object('example.com/Thing', 'below', conditions(condition('Ready', 'False', 900, 'Why', 'because')))
    const silent = object('example.com/Thing', 'above')
    t.equal(summary(judge([silent, ownedBy(silent, broken)])), 'Degraded Why')
    const content = object('example.com/Thing', 'above', conditions(condition('Ready', 'True', 900)))
    t.equal(summary(judge([content, ownedBy(content, broken)])), 'Healthy Why', 'and takes the cause')
    const hopeful = ownedBy(silent, starting('a'))
    t.equal(summary(judge([silent, hopeful])), 'Progressing Starting')
    const quiet = ownedBy(content, starting('a'))
    t.equal(summary(judge([content, quiet])), 'Healthy')
  },
)

t.test("a healthy object of Kubernetes' own kinds hides nothing that names it as its owner", async (t) => {
  const service = object('Service', 'web', { spec: { type: 'ClusterIP' } })
  const claimed = [ownedBy(service, deployment), current, ...under(current, bad('a'))]
  t.match(judge([service, ...claimed]), { verdict: 'Degraded', cause: { kind: 'Pod' } })
  const hopeful = ownedBy(service, starting('a'))
  t.equal(summary(judge([service, hopeful])), 'Progressing Starting')
  const namespace = object('Namespace', 'shop', { metadata: { namespace: '' } })
  t.equal(judge([namespace, ownedBy(namespace, bad('a'))]).verdict, 'Healthy', 'what is in none says nothing of that')
})

t.test("a user's rule has the first word", async (t) => {
  const users = (status: 'Healthy' | 'Degraded') => (one: KubernetesObject) =>
    one.kind === 'Deployment' ? { users: { status, text: 'we say so' } } : {}
  const objects = [deployment, current, ...under(current, bad('a'))]
  t.equal(judge(objects, { verdicts: users('Healthy') }).verdict, 'Healthy')
  t.match(judge([deployment], { verdicts: users('Degraded') }), { verdict: 'Degraded', cause: { text: 'we say so' } })
})

t.test("vendors' and Argo CD's rules: reason and since are of the condition whose message the text is", async (t) => {
  const certificate = object(
    'cert-manager.io/Certificate',
    'c',
    conditions(condition('Ready', 'False', 90, 'DoesNotExist', 'no secret')),
  )
  const argo = { status: 'Degraded', text: 'no secret' } as const
  const { verdict, cause } = judge([certificate], { verdicts: () => ({ argo }) })
  t.match({ verdict, cause }, { verdict: 'Degraded', cause: { reason: 'DoesNotExist', since: now - 90_000 } })
})

t.test('one cause: Pods of one reason, container and namespace; the earliest stands for them', async (t) => {
  const pods = under(current, bad('b'), bad('a', 'InvalidImageName', 200), bad('c'))
  const { cause } = judge([deployment, current, ...pods])
  t.match(cause, { name: 'b', count: 3, others: 0, since: now - 300_000 })
  const two = under(current, bad('a'), bad('b', 'ErrImageNeverPull'), bad('c', 'ErrImageNeverPull'))
  t.match(judge([deployment, current, ...two]).cause, { reason: 'ErrImageNeverPull', name: 'b', count: 2, others: 1 })
})

t.test('order: the word, how many, rank, earlier, name', async (t) => {
  const chosen = (...pods: readonly KubernetesObject[]) =>
    judge([deployment, current, ...under(current, ...pods)]).cause
  t.match(chosen(starting('a'), starting('b'), bad('c')), { name: 'c', others: 1 }, 'the worse word')
  const gated = pod({
    name: 'a',
    status: { conditions: [condition('Ready', 'False', 900), condition('ContainersReady', 'True', 900)] },
    container: { state: running(900), ready: true },
  })
  t.match(chosen(gated, bad('b', 'InvalidImageName', 100)), { name: 'b' }, 'a container before a Pod')
  t.match(chosen(bad('b', 'InvalidImageName', 400), bad('a', 'ErrImageNeverPull')), { name: 'b' }, 'the earlier')
  t.match(chosen(bad('b'), bad('a', 'ErrImageNeverPull')), { name: 'a' }, 'the first by name')
})

t.test("a controller's summary yields to any other, and is no further cause", async (t) => {
  const overdue = object(
    'apps/Deployment',
    'web',
    {
      spec: { replicas: 3 },
      status: {
        observedGeneration: 1,
        ...conditions(condition('Progressing', 'False', 5, 'ProgressDeadlineExceeded', 'late')).status,
      },
    },
    { generation: 1 },
  )
  t.equal(summary(judge([overdue, current])), 'Degraded ProgressDeadlineExceeded')
  const judged = judge([overdue, current, ...under(current, starting('a'))])
  t.match(judged, { verdict: 'Degraded', cause: { reason: 'Starting', others: 0 } })
})

const message = 'failed calling webhook "v.example.com": EOF'
const refused = (replicas: number) =>
  replicaSet('web-2', '10', {
    spec: { replicas },
    ...{ status: { replicas: 0, conditions: [condition('ReplicaFailure', 'True', 90, 'FailedCreate', message)] } },
  })
t.test('a refusal is as large as the Pods that are missing', async (t) => {
  const { cause } = judge([deployment, refused(3), ...under(current, bad('a'), bad('b'))])
  t.match(cause, { kind: 'apps/ReplicaSet', reason: 'WebhookFailed', count: 3, others: 1 })
})

const node = (status: string) =>
  object(
    'Node',
    'node-1',
    conditions(condition('Ready', status, 60, 'NodeStatusUnknown', 'Kubelet stopped posting node status.')),
  )
const service = object('Service', 's', { spec: { selector: { app: 'a' } } })
const slice = object(
  'discovery.k8s.io/EndpointSlice',
  's-1',
  { endpoints: [{ conditions: { ready: false } }] },
  { labels: { 'kubernetes.io/service-name': 's' } },
)
const lost = (name: string) =>
  pod({
    name,
    status: { conditions: [condition('Ready', 'False', 60), condition('ContainersReady', 'True', 900)] },
    container: { ready: true, state: running(900) },
  })
const configurationKind = 'admissionregistration.k8s.io/MutatingWebhookConfiguration'
const configuration = object(configurationKind, 'w', {
  webhooks: [{ name: 'v.example.com', clientConfig: { service: { namespace: 'n', name: 's' } } }],
})

t.test('what explains a finding stands in its place, four steps at most', async (t) => {
  const lostPods = [lost('a'), lost('b')]
  t.match(judge([deployment, current, ...under(current, ...lostPods), node('Unknown')]).cause, {
    kind: 'Node',
    reason: 'NodeUnreachable',
    count: 2,
  })
  t.match(judge([service, slice, ...lostPods, node('Unknown')]).cause, { kind: 'Node', count: 2 })
  t.equal(summary(judge([lost('a'), node('True')])), 'Degraded NodeNotReady')
  const chain = [deployment, refused(3), configuration, service, slice, ...lostPods, node('Unknown')]
  t.match(judge(chain).cause, { kind: 'Node', reason: 'NodeUnreachable', count: 3, others: 0 })
  t.match(judge(chain, { without: ['Node'] }).cause, { kind: 'Pod', reason: 'NodeNotReady', count: 3 })
  t.match(judge(chain, { without: ['Pod'] }).cause, { kind: configurationKind, reason: 'WebhookFailed' })
  t.match(judge(chain, { without: ['apps/ReplicaSet'] }).verdict, 'Progressing')
})

t.test(
  'a webhook that fails though nothing is found of its configuration: that is the culprit, of what fails by it',
  async (t) => {
    const answered = { ...slice, endpoints: [{ conditions: { ready: true } }] }
    const objects = [deployment, refused(3), configuration, service, answered]
    t.match(judge(objects).cause, {
      kind: configurationKind,
      reason: 'WebhookFailed',
      text: 'webhook v.example.com: EOF',
      count: 3,
      others: 0,
      since: now - 90_000,
    })
    t.match(judge(objects, { without: [configurationKind] }).cause, { kind: 'apps/ReplicaSet', name: 'web-2' })
    const twin = { ...configuration, metadata: { name: 'x', uid: 'x' } }
    t.match(judge([...objects, twin]).cause, { kind: 'apps/ReplicaSet' }, 'of two nobody knows which')
  },
)

t.test('creation and its kin, and what does not end, are explained by a node that is not ready', async (t) => {
  const made = pod({ phase: 'Pending', container: waiting('ContainerCreating') })
  t.match(judge([made, node('False')]).cause, { kind: 'Node', reason: 'NodeNotReady' })
  const events = [event(made, 'FailedMount', 'no')]
  t.match(judge([made, node('False')], { events }).cause, { kind: 'Node' })
  t.match(judge([pod({ metadata: { deletionTimestamp: ago(90) } }), node('Unknown')]).cause, { kind: 'Node' })
  const pressed = object('Node', 'node-1', conditions(condition('DiskPressure', 'True', 60)))
  t.match(judge([made, pressed]).cause, { kind: 'Pod' })
  const cordoned = object('Node', 'node-1', { spec: { unschedulable: true } })
  t.match(judge([made, cordoned]).cause, { kind: 'Pod' })
})

t.test('a Pod without a node is explained by claims, not by one that waits for it', async (t) => {
  const waits = (text: string, volumes: object[]) =>
    pod({
      phase: 'Pending',
      spec: { nodeName: '', volumes },
      status: { conditions: [condition('PodScheduled', 'False', 900, 'Unschedulable', text)] },
    })
  const mounts = [{ persistentVolumeClaim: { claimName: 'c' } }]
  const claim = object('PersistentVolumeClaim', 'c', {
    spec: { storageClassName: 'fast' },
    status: { phase: 'Pending' },
  })
  const unbound = 'pod has unbound immediate PersistentVolumeClaims'
  t.match(judge([waits(unbound, mounts), claim]).cause, {
    kind: 'PersistentVolumeClaim',
    reason: 'StorageClassMissing',
  })
  const late = object('storage.k8s.io/StorageClass', 'fast', { volumeBindingMode: 'WaitForFirstConsumer' })
  t.match(judge([waits('3 Insufficient cpu', mounts), claim, late]).cause, { kind: 'Pod', reason: 'Unschedulable' })
  const ephemeral = object('PersistentVolumeClaim', 'pod-v', { spec: {}, status: { phase: 'Pending' } })
  t.match(judge([waits(unbound, [{ name: 'v', ephemeral: {} }]), ephemeral]).cause, {
    name: 'pod-v',
    reason: 'NotBound',
  })
})

t.test('a Pod whose node is chosen is explained by a claim that waits for its provisioner', async (t) => {
  const mounts = [{ persistentVolumeClaim: { claimName: 'c' } }]
  const waits = (status: object, volumes: object[] = mounts, seconds = 900) =>
    pod({
      phase: 'Pending',
      spec: { nodeName: '', volumes },
      status: { conditions: [], ...status },
      metadata: { creationTimestamp: ago(seconds) },
    })
  const claim = (annotations: object) =>
    object(
      'PersistentVolumeClaim',
      'c',
      { spec: { storageClassName: 'fast' }, status: { phase: 'Pending' } },
      { annotations: { 'volume.kubernetes.io/storage-provisioner': 'ebs.csi.aws.com', ...annotations } },
    )
  const late = object('storage.k8s.io/StorageClass', 'fast', { volumeBindingMode: 'WaitForFirstConsumer' })
  const chosen = claim({ 'volume.kubernetes.io/selected-node': 'node-1' })
  const text = 'waits for provisioner ebs.csi.aws.com'
  t.match(judge([waits({ nominatedNodeName: 'node-1' }), chosen, late]), {
    verdict: 'Degraded',
    cause: { kind: 'PersistentVolumeClaim', reason: 'NotBound', text, others: 0 },
  })
  t.match(judge([waits({}, mounts, 299), chosen, late]), { verdict: 'Progressing', cause: { text } })
  const without = ['PersistentVolumeClaim']
  t.match(judge([waits({ nominatedNodeName: 'node-1' }), chosen, late], { without }), {
    cause: { reason: 'NotScheduled', text: 'node node-1 is chosen; waits for its volumes' },
  })
  t.match(judge([waits({}), chosen, late], { without }), {
    cause: { reason: 'NotScheduled', text: 'waits for its volumes, or for default-scheduler' },
  })
  t.match(judge([waits({}), claim({}), late]), {
    verdict: 'Degraded',
    cause: { kind: 'Pod', text: 'no scheduler has considered it: default-scheduler' },
  })
  t.match(judge([waits({ nominatedNodeName: 'node-1' }, [])]), {
    verdict: 'Progressing',
    cause: { text: 'node node-1 is chosen' },
  })
})

const inactive = (type: string, reason: string) =>
  object('autoscaling/HorizontalPodAutoscaler', 'h', {
    spec: { metrics: [{ type }] },
    ...conditions(condition('ScalingActive', 'False', 900, reason, 'no metrics')),
  })
const apiService = (group: string) =>
  object('apiregistration.k8s.io/APIService', `v1.${group}`, {
    spec: { group, version: 'v1', service: { namespace: 'n', name: 's' } },
    ...conditions(condition('Available', 'False', 800, 'MissingEndpoints', 'none')),
  })
const metrics: readonly (readonly [type: string, reason: string, group: string])[] = [
  ['Resource', 'FailedGetResourceMetric', 'metrics.k8s.io'],
  ['Pods', 'FailedGetPodsMetric', 'custom.metrics.k8s.io'],
  ['Object', 'FailedGetObjectMetric', 'custom.metrics.k8s.io'],
  ['External', 'FailedGetExternalMetric', 'external.metrics.k8s.io'],
  ['External', 'FailedComputeMetricsReplicas', 'external.metrics.k8s.io'],
]
t.test('autoscalers by the group of their metric, groups by the Pods that serve them', async (t) => {
  const all = ['metrics.k8s.io', 'custom.metrics.k8s.io', 'external.metrics.k8s.io'].map(apiService)
  for (const [type, reason, group] of metrics) {
    t.match(judge([inactive(type, reason), ...all]).cause, { name: `v1.${group}`, reason: 'MissingEndpoints' })
  }
  const served = [inactive('Resource', 'FailedGetResourceMetric'), ...all, service, slice, bad('a')]
  t.match(judge(served).cause, { kind: 'Pod', reason: 'InvalidImageName', count: 1 })
  t.match(
    judge(served, { without: ['Service'] }).cause,
    { reason: 'MissingEndpoints' },
    'nor by a Service that is hidden',
  )
  t.match(judge([inactive('Resource', 'InvalidSelector'), ...all]).cause, { reason: 'InvalidSelector' })
})

t.test('an autoscaler whose metric is not found says whether its group is served, to who may know', async (t) => {
  const absent = 'the server could not find the requested resource'
  const own = `unable to get external metric n/queue/nil: ${absent}`
  const scaler = (message: string, type = 'External') =>
    object('autoscaling/HorizontalPodAutoscaler', 'h', {
      spec: { metrics: [{ type }] },
      ...conditions(condition('ScalingActive', 'False', 900, `FailedGet${type}Metric`, message)),
    })
  const served = object(
    'apiregistration.k8s.io/APIService',
    'v1beta1.external.metrics.k8s.io',
    conditions(condition('Available', 'True', 800)),
  )
  const said = `unable to get external metric n/queue: ${absent}`
  const before = 'the HPA was unable to compute the replica count: '
  const none = 'nothing serves external.metrics.k8s.io: '
  t.equal(judge([scaler(before + own)]).cause?.text, none + said)
  const hidden = { without: ['apiregistration.k8s.io/APIService'] }
  t.equal(judge([scaler(before + own)], hidden).cause?.text, said)
  const has = 'external.metrics.k8s.io is served, and has no such metric: '
  t.equal(judge([scaler(own), served]).cause?.text, has + said)
  t.equal(judge([scaler(own), served], hidden).cause?.text, said)
  t.equal(judge([scaler('the server is busy'), served]).cause?.text, 'the server is busy')
  const ofPods = judge([scaler(absent, 'Resource')]).cause
  t.equal(ofPods?.text, `nothing serves metrics.k8s.io, as metrics-server does: ${absent}`)
  t.equal(ofPods?.about, 'metrics.k8s.io')
})

t.test('an Ingress by what its Services fail by, whether it has an address or not', async (t) => {
  const backend = { spec: { defaultBackend: { service: { name: 's' } } } }
  const ingress = object('networking.k8s.io/Ingress', 'i', {
    ...backend,
    status: { loadBalancer: { ingress: [{ ip: '192.0.2.1' }] } },
  })
  t.match(judge([ingress, service, slice, bad('a')]), {
    verdict: 'Progressing',
    cause: { kind: 'Pod', reason: 'InvalidImageName' },
  })
  t.match(judge([ingress, service, slice, bad('a')], { without: ['Service'] }), { verdict: 'Healthy' })
})

t.test('an Ingress without an address by the Pods of its Services', async (t) => {
  const ingress = object('networking.k8s.io/Ingress', 'i', { spec: { defaultBackend: { service: { name: 's' } } } })
  t.match(judge([ingress, service, slice, bad('a')]), { verdict: 'Progressing', cause: { kind: 'Pod' } })
  const answered = { ...slice, endpoints: [{ conditions: { ready: true } }] }
  t.match(judge([ingress, service, answered, bad('a')]), {
    verdict: 'Progressing',
    cause: { reason: 'AddressPending' },
  })
})

t.test('a Namespace by the groups that its deletion names', async (t) => {
  const text = 'unable to retrieve the complete list of server APIs: metrics.k8s.io/v1: stale GroupVersion discovery'
  const namespace = object(
    'Namespace',
    'n',
    conditions(condition('NamespaceDeletionDiscoveryFailure', 'True', 900, 'DiscoveryFailed', text)),
    { deletionTimestamp: ago(900) },
  )
  t.match(judge([namespace, apiService('metrics.k8s.io'), apiService('other.io')]).cause, {
    name: 'v1.metrics.k8s.io',
    since: now - 800_000,
  })
})

t.test('a Namespace by what does not leave it: each is a cause', async (t) => {
  const namespace = object(
    'Namespace',
    'n',
    conditions(condition('NamespaceFinalizersRemaining', 'True', 900, 'SomeFinalizersRemain', 'x in 2 instances')),
    { deletionTimestamp: ago(900) },
  )
  const stuck = (name: string) =>
    object('example.com/Topic', name, {}, { deletionTimestamp: ago(900), finalizers: ['example.com/x'] })
  t.match(judge([namespace, stuck('a'), stuck('b'), stuck('c')]).cause, { name: 'a', count: 1, others: 2 })
  t.match(judge([namespace, stuck('a')]).cause, { name: 'a', others: 0 })
})

t.test('what stands above a culprit is no other cause, unless it was refused', async (t) => {
  const thing = (name: string, message: string) =>
    object('example.com/Thing', name, conditions(condition('Ready', 'False', 900, 'Why', message)))
  const [root, middle, leaf, other] = ['a', 'b', 'c', 'd'].map((name) => thing(name, `${name} is not ready`))
  const chain = [root, ownedBy(root as KubernetesObject, middle as KubernetesObject)] as KubernetesObject[]
  const end = ownedBy(chain[1] as KubernetesObject, leaf as KubernetesObject)
  t.match(judge([...chain, end]).cause, { name: 'c', others: 0 })
  t.match(judge([...chain, end, ownedBy(chain[0] as KubernetesObject, other as KubernetesObject)]).cause, {
    name: 'c',
    others: 1,
  })
  const pods = under(current, bad('a'), bad('b'), bad('c'), bad('d'))
  t.match(judge([deployment, refused(3), ...pods]).cause, { kind: 'Pod', count: 4, others: 1 })
})

t.test('since: of the cause, else of what it explains', async (t) => {
  t.equal(judge([deployment, refused(3), configuration]).cause?.since, now - 90_000)
  t.match(judge([configuration]), { cause: { since: undefined }, atLeast: now })
})

t.test('rights: who may not list a culprit is shown what it explains', async (t) => {
  const objects = [deployment, current, ...under(current, bad('a'))]
  t.equal(summary(judge(objects, { without: ['Pod'] })), 'Progressing RollingOut')
  t.equal(summary(judge(objects, { without: ['apps/ReplicaSet'] })), 'Progressing RollingOut')
})
