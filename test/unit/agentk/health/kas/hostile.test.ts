import t from 'tap'
import { maxText } from '../../../../../src/agentk/health/kas/text.ts'
import type { KubernetesObject } from '../../../../../src/kubernetes/object.ts'
import { ago, condition, ended, event, judge, now, object, ownedBy, pod, summary, waiting } from './world.ts'

/** Hostile objects and events: nothing throws, no text is long, and the time grows linearly with the size. */

const kinds = [
  'Pod',
  'Node',
  'Service',
  'Namespace',
  'PersistentVolumeClaim',
  'apps/Deployment',
  'apps/ReplicaSet',
  'apps/StatefulSet',
  'apps/DaemonSet',
  'batch/Job',
  'batch/CronJob',
  'networking.k8s.io/Ingress',
  'gateway.networking.k8s.io/HTTPRoute',
  'autoscaling/HorizontalPodAutoscaler',
  'apiregistration.k8s.io/APIService',
  'apiextensions.k8s.io/CustomResourceDefinition',
  'admissionregistration.k8s.io/ValidatingWebhookConfiguration',
  'example.com/Thing',
]
const values: readonly unknown[] = [null, 7, 'text', true, [], [null, 7, 'text', []], {}, { conditions: 'none' }]

t.test('nothing is of the type that it should be', async (t) => {
  const paths = [
    'status.conditions',
    'status.containerStatuses',
    'status.initContainerStatuses',
    'status.phase',
    'status.parents',
    'status.listeners',
    'status.loadBalancer',
    'spec.containers',
    'spec.initContainers',
    'spec.volumes',
    'spec.selector',
    'spec.rules',
    'spec.tls',
    'spec.template',
    'spec.taints',
    'spec.metrics',
    'spec.service',
    'spec.replicas',
    'status.active',
    'spec.scaleTargetRef',
    'spec.volumeClaimTemplates',
    'metadata.finalizers',
    'metadata.labels',
    'metadata.annotations',
    'metadata.ownerReferences',
    'metadata.deletionTimestamp',
    'metadata.creationTimestamp',
    'webhooks',
    'spec',
    'status',
  ]
  for (const kind of kinds) {
    for (const path of paths) {
      for (const value of values) {
        const one = structuredClone(object(kind, 'x')) as Record<string, unknown>
        const [first, second] = path.split('.') as [string, string?]
        if (second === undefined) one[first] = value
        else one[first] = { ...(one[first] as object), [second]: value }
        const { name } = one.metadata as { name?: string }
        if (name !== 'x') continue
        t.doesNotThrow(() => judge([one]), `${kind} ${path} ${JSON.stringify(value)}`)
      }
    }
  }
  for (const value of values)
    t.doesNotThrow(() =>
      judge([object('Pod', 'x')], {
        events: [value as KubernetesObject].filter((one) => typeof one === 'object' && one !== null),
      }),
    )
})

t.test('times of 1970 are unknown, those to come are now', async (t) => {
  const started = (startedAt: string) =>
    pod({
      ready: ['True', 5],
      container: {
        ready: true,
        restartCount: 2,
        state: { running: { startedAt } },
        lastState: { terminated: { exitCode: 1, startedAt: '1970-01-01T00:00:00Z', finishedAt: ago(20) } },
      },
    })
  t.equal(summary(judge([started(ago(9))])), 'Progressing CrashLoopBackOff')
  t.equal(summary(judge([started('1970-01-01T00:00:00Z')])), 'Healthy')
  const future = pod({ ready: ['False', -900], container: waiting('CreateContainerError') })
  t.match(judge([future]), { verdict: 'Progressing', cause: { since: now } })
  const lost = object('Node', 'x', {
    status: { conditions: [{ ...condition('Ready', 'Unknown', 0), lastTransitionTime: 'soon' }] },
  })
  t.match(judge([lost]), { verdict: 'Degraded', cause: { since: undefined } })
})

t.test('texts are bounded, and keep their end', async (t) => {
  const long = `${'a'.repeat(100_000)} \n\t the end`
  const one = pod({ container: waiting('CreateContainerError', long) })
  const text = judge([one]).cause?.text ?? ''
  t.ok(text.length <= maxText)
  t.ok(text.startsWith('container app: aaa') && text.endsWith('the end'))
  const events = [event(one, 'Failed', `Failed to pull image "x": ${long}`)]
  const pulling = pod({ container: waiting('ImagePullBackOff', 'Back-off pulling image "x"') })
  t.ok((judge([pulling], { events }).cause?.text.length ?? 0) <= maxText)
  const reason = object('example.com/Thing', 'x', {
    status: { conditions: [condition('Failed', 'True', 1, long, long)] },
  })
  const { cause } = judge([reason])
  t.ok((cause?.text.length ?? 0) <= maxText && (cause?.reason.length ?? 0) <= maxText)
  const held = object(
    'ConfigMap',
    'x',
    {},
    { deletionTimestamp: ago(900), finalizers: Array.from({ length: 1000 }, () => long) },
  )
  t.ok((judge([held]).cause?.text.length ?? 0) <= maxText)
})

t.test('owners that go round, and deep ones', async (t) => {
  const thing = (name: string) => object('example.com/Thing', name)
  const [a, b, c] = ['a', 'b', 'c'].map(thing) as [KubernetesObject, KubernetesObject, KubernetesObject]
  const round = [
    ownedBy(c, a),
    ownedBy(a, b),
    ownedBy(b, c),
    ownedBy(a, pod({ container: waiting('InvalidImageName') })),
  ]
  t.equal(summary(judge(round)), 'Degraded InvalidImageName')
  t.equal(summary(judge([ownedBy(a, a)])), 'Healthy')
  const deep = [thing('0')]
  for (let i = 1; i < 5000; i++) deep.push(ownedBy(deep[i - 1] as KubernetesObject, thing(`${i}`)))
  t.equal(summary(judge(deep)), 'Healthy')
})

t.test('an autoscaler that scales itself', async (t) => {
  const spec = { scaleTargetRef: { apiVersion: 'autoscaling/v2', kind: 'HorizontalPodAutoscaler', name: 'h' } }
  const one = object('autoscaling/HorizontalPodAutoscaler', 'h', {
    spec,
    status: { conditions: [condition('ScalingActive', 'False', 900, 'X', 'x')] },
  })
  t.equal(summary(judge([one])), 'Degraded X')
})

/** factor by which the time may grow when the size grows tenfold */
const growth = 60
/** ms; shorter times count as this, because a garbage collection takes as long */
const leastMs = 2

const attacks: Readonly<
  Record<string, (size: number) => readonly [readonly KubernetesObject[], (readonly KubernetesObject[])?]>
> = {
  'Pods of one Service': (size) => [
    [
      object('Service', 's', { spec: { selector: { app: 'a' } } }),
      ...Array.from({ length: size * 20 }, (_, i) => pod({ name: `p${i}`, container: waiting('InvalidImageName') })),
    ],
  ],
  'containers of a Pod, and its events': (size) => {
    const one = pod({})
    const statuses = Array.from({ length: size * 10 }, (_, i) => ({
      name: `c${i}`,
      restartCount: 5,
      ...waiting('CrashLoopBackOff'),
      lastState: ended(1, 'Error', 9, 8),
    }))
    const events = Array.from({ length: size * 10 }, (_, i) =>
      event(one, 'BackOff', 'restarting failed container', { metadata: { name: `e${i}` } }),
    )
    return [[{ ...one, status: { ...(one.status as object), containerStatuses: statuses } }], events]
  },
  'refusals by one webhook': (size) => {
    const above = object('example.com/Thing', 'x')
    const failure = condition('ReplicaFailure', 'True', 90, 'FailedCreate', 'failed calling webhook "v": EOF')
    const sets = Array.from({ length: size * 5 }, (_, i) =>
      object('apps/ReplicaSet', `r${i}`, { spec: { replicas: 1 }, status: { conditions: [failure] } }),
    )
    const pods = Array.from({ length: size * 5 }, (_, i) =>
      pod({ name: `p${i}`, container: waiting('InvalidImageName') }),
    )
    const configuration = object('admissionregistration.k8s.io/ValidatingWebhookConfiguration', 'w', {
      webhooks: [{ name: 'v', clientConfig: { service: { namespace: 'n', name: 's' } } }],
    })
    const service = object('Service', 's', { spec: { selector: { app: 'a' } } })
    return [[above, ...sets.map((one) => ownedBy(above, one)), configuration, service, ...pods]]
  },
  'a text of an image that never ends': (size) => [
    [
      pod({
        containerSpec: { image: '"'.repeat(1000 * size) },
        container: waiting('ErrImagePull', '"a.'.repeat(1000 * size)),
      }),
    ],
  ],
  'dashes of a claim': (size) => [
    [object('PersistentVolumeClaim', `${'a-'.repeat(100 * size)}0`, { spec: {}, status: { phase: 'Pending' } })],
  ],
}

for (const [name, attack] of Object.entries(attacks)) {
  t.test(`linear: ${name}`, async (t) => {
    // CPU time of this thread, the least of three runs: other processes use the machine too
    const timeOf = (size: number) => {
      const [objects, events] = attack(size)
      const times = Array.from({ length: 3 }, () => {
        const before = process.threadCpuUsage()
        judge(objects, events ? { events } : {})
        const { user, system } = process.threadCpuUsage(before)
        return (user + system) / 1000
      })
      return Math.min(...times)
    }
    const [small, large] = [timeOf(10), timeOf(100)]
    t.ok(large < growth * Math.max(small, leastMs), `${small} ms, then ${large} ms`)
  })
}
