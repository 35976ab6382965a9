import t from 'tap'
import type { KubernetesObject } from '../../../../../src/kubernetes/object.ts'
import {
  ago,
  type Case,
  condition,
  ended,
  event,
  judge,
  judgeTables,
  now,
  object,
  pod,
  running,
  sinceOf,
  waiting,
  well,
} from './world.ts'

/** Rows of the table of Services and of the objects that send requests to Services. The first object is the root. */

const service = (spec: object = {}, status: object = {}, seconds = 9000) =>
  object('Service', 's', { spec: { selector: { app: 'a' }, ...spec }, status }, { creationTimestamp: ago(seconds) })

const slice = (...ready: (boolean | null)[]) =>
  object(
    'discovery.k8s.io/EndpointSlice',
    's-1',
    { endpoints: ready.map((one) => ({ conditions: { ready: one } })) },
    { labels: { 'kubernetes.io/service-name': 's' } },
  )

/** Returns an EndpointSlice with these ports. */
const sliceWith = (ports: unknown, ...ready: boolean[]) => ({ ...slice(...ready), ports })
const named = (name: string, one: KubernetesObject) => ({
  ...one,
  metadata: { ...(one.metadata as object), name, uid: `uid-${name}` },
})
const sendsTo = (targetPort: string | number, more: object = {}) =>
  service({ ports: [{ port: 80, targetPort }], ...more })

const maker = (replicas: number) =>
  object('apps/Deployment', 'web', { spec: { replicas, template: { metadata: { labels: { app: 'a' } } } } })

const crashing = pod({
  container: { restartCount: 5, ...waiting('CrashLoopBackOff'), lastState: ended(1, 'Error', 50, 40) },
})

const balanced = { type: 'LoadBalancer' }

const services: readonly Case[] = [
  ['answered', 'Healthy', [service(), slice(false, true), crashing]],
  ['answered by what does not say', 'Healthy', [service(), slice(null)]],
  ['a port that no Pod has, at first', 'Progressing PortMissing', [sendsTo('http'), sliceWith(null, true)]],
  ['a port that one of its Pods has', 'Healthy', [sendsTo('http'), sliceWith([{ name: '', port: 8080 }], true)]],
  [
    'one of two ports that no Pod has',
    'Progressing PortMissing',
    [
      service({
        ports: [
          { name: 'a', targetPort: 'http' },
          { name: 'b', targetPort: 'web' },
        ],
      }),
      sliceWith([{ name: 'a', port: 8080 }], true),
    ],
  ],
  [
    'the port of Pods that are not ready yet',
    'Healthy',
    [sendsTo('http'), sliceWith(null, true), named('s-2', sliceWith([{ name: '', port: 8080 }], false))],
  ],
  ['a port by its number', 'Healthy', [sendsTo(8080), sliceWith(null, true)]],
  ['a port of a headless one', 'Healthy', [sendsTo('http', { clusterIP: 'None' }), sliceWith(null, true)]],
  ['a port, without a selector', 'Healthy', [sendsTo('http', { selector: null }), sliceWith(null, true)]],
  ['a port of what says no ports', 'Healthy', [sendsTo('http'), slice(true)]],
  ['a port of what takes any', 'Healthy', [sendsTo('http'), sliceWith([{}], true)]],
  [
    'a port that no Pod has, slices hidden',
    'Healthy',
    [sendsTo('http'), sliceWith(null, true)],
    [],
    ['discovery.k8s.io/EndpointSlice'],
  ],
  [
    'a port that no Pod has, none is ready',
    'Degraded CrashLoopBackOff',
    [sendsTo('http'), sliceWith(null, false), crashing],
  ],
  ['its Pods fail', 'Degraded CrashLoopBackOff', [service(), slice(false), crashing]],
  [
    'its Pods fail, events hidden',
    'Degraded CrashLoopBackOff',
    [service(), slice(false), crashing],
    [event(crashing, 'BackOff', 'Back-off restarting failed container app')],
    ['Event'],
  ],
  ['its Pods fail, it is new', 'Progressing CrashLoopBackOff', [service({}, {}, 59), slice(false), crashing]],
  ['its Pods start', 'Progressing Starting', [service(), slice(false), pod({ container: { state: running(5) } })]],
  ['its Pods are ready this moment', 'Progressing NoReadyEndpoints', [service(), slice(), well()]],
  ['at zero', 'Suspended ScaledToZero', [service(), slice(), maker(0)]],
  [
    'at zero, an evicted Pod is left',
    'Suspended ScaledToZero',
    [service(), slice(), maker(0), pod({ phase: 'Failed' })],
  ],
  [
    'its Pod does not leave',
    'Degraded TerminatingStuck',
    [service(), slice(), maker(1), pod({ metadata: { deletionTimestamp: ago(60) } })],
  ],
  [
    'its Pod leaves, another starts',
    'Progressing Starting',
    [
      service(),
      slice(),
      maker(1),
      pod({ name: 'old', metadata: { deletionTimestamp: ago(5) } }),
      pod({ name: 'a', container: { state: running(5) } }),
    ],
  ],
  [
    'an evicted Pod is left, another starts',
    'Progressing Starting',
    [
      service(),
      slice(),
      pod({ name: 'old', phase: 'Failed', status: { reason: 'Evicted' } }),
      pod({ name: 'a', container: { state: running(5) } }),
    ],
  ],
  ['no Pod yet', 'Progressing NoReadyEndpoints', [service(), slice(), maker(2)]],
  [
    'between two runs',
    'Progressing NoReadyEndpoints',
    [
      service(),
      object('batch/CronJob', 'c', {
        spec: { jobTemplate: { spec: { template: { metadata: { labels: { app: 'a' } } } } } },
      }),
    ],
  ],
  ['selects nothing', 'Degraded SelectsNothing', [service()]],
  ['selects nothing at first', 'Progressing SelectsNothing', [service({}, {}, 59)]],
  ['selects nothing, Deployments hidden', 'Healthy', [service()], [], ['apps/Deployment']],
  ['selects nothing, slices hidden', 'Healthy', [service()], [], ['discovery.k8s.io/EndpointSlice']],
  ['no selector', 'Healthy', [service({ selector: null })]],
  ['another name', 'Healthy', [service({ type: 'ExternalName' })]],
  ['no address yet', 'Progressing LoadBalancerPending', [service(balanced), slice(true)]],
  [
    'no address',
    'Degraded SyncLoadBalancerFailed',
    [service(balanced), slice(true)],
    [event(service(), 'SyncLoadBalancerFailed', 'no credit')],
  ],
  [
    'no address, it was told a moment ago',
    'Progressing SyncLoadBalancerFailed',
    [service(balanced), slice(true)],
    [event(service(), 'SyncLoadBalancerFailed', 'no credit', { firstTimestamp: ago(119) })],
  ],
  [
    'has its address',
    'Healthy',
    [service(balanced, { loadBalancer: { ingress: [{ ip: '192.0.2.1' }] } }), slice(true)],
  ],
]

const addressed = { loadBalancer: { ingress: [{ ip: '192.0.2.1' }] } }

const ingress = (spec: object, status: object = addressed, seconds = 60) =>
  object('networking.k8s.io/Ingress', 'i', { spec, status }, { creationTimestamp: ago(seconds) })

const toService = { defaultBackend: { service: { name: 's' } } }

const ingresses: readonly Case[] = [
  ['well', 'Healthy', [ingress(toService), service(), slice(true)]],
  ['nobody answers its service', 'Progressing SelectsNothing', [ingress(toService), service()]],
  ['nobody answers its service, which is new', 'Healthy', [ingress(toService), service({}, {}, 59)]],
  ['nobody answers its service, hidden', 'Healthy', [ingress(toService), service()], [], ['Pod']],
  ['its service is at zero', 'Healthy', [ingress(toService), service(), slice(), maker(0)]],
  ['no such service', 'Degraded BackendMissing', [ingress(toService)]],
  ['no such service at first', 'Progressing BackendMissing', [ingress(toService, addressed, 59)]],
  ['no such class', 'Degraded IngressClassMissing', [ingress({ ingressClassName: 'nginx' })]],
  ['class', 'Healthy', [ingress({ ingressClassName: 'nginx' }), object('networking.k8s.io/IngressClass', 'nginx')]],
  ['no such secret', 'Degraded SecretMissing', [ingress({ tls: [{ secretName: 'x' }] })]],
  ['no such secret, hidden', 'Healthy', [ingress({ tls: [{ secretName: 'x' }] })], [], ['Secret']],
  ['no address', 'Progressing AddressPending', [ingress({}, {}, 9000)]],
]

const gateways: readonly Case[] = [
  [
    'route',
    'Degraded BackendNotFound',
    [
      object('gateway.networking.k8s.io/HTTPRoute', 'r', {
        status: {
          parents: [
            {
              conditions: [
                condition('Accepted', 'True', 9),
                condition('ResolvedRefs', 'False', 9, 'BackendNotFound', 'no such service'),
              ],
            },
          ],
        },
      }),
    ],
  ],
  [
    'listener',
    'Degraded InvalidCertificateRef',
    [
      object('gateway.networking.k8s.io/Gateway', 'g', {
        status: {
          conditions: [condition('Programmed', 'True', 9), condition('Accepted', 'True', 9)],
          listeners: [
            {
              name: 'https',
              conditions: [
                condition('ResolvedRefs', 'False', 9, 'InvalidCertificateRef', 'no'),
                condition('Conflicted', 'False', 9, 'NoConflicts'),
              ],
            },
          ],
        },
      }),
    ],
  ],
  [
    'listener, which the Gateway sums up',
    'Degraded InvalidCertificateRef',
    [
      object('gateway.networking.k8s.io/Gateway', 'g', {
        status: {
          conditions: [condition('Accepted', 'False', 9, 'ListenersNotValid', 'some')],
          listeners: [
            { name: 'https', conditions: [condition('ResolvedRefs', 'False', 9, 'InvalidCertificateRef', 'no')] },
          ],
        },
      }),
    ],
  ],
  [
    'not come to yet',
    'Progressing Pending',
    [
      object('gateway.networking.k8s.io/Gateway', 'g', {
        status: { conditions: [condition('Programmed', 'False', 9, 'Pending', 'wait')] },
      }),
    ],
  ],
  [
    'of a generation before',
    'Healthy',
    [
      object(
        'gateway.networking.k8s.io/GatewayClass',
        'g',
        {
          status: {
            conditions: [{ ...condition('Accepted', 'False', 9, 'InvalidParameters', 'no'), observedGeneration: 1 }],
          },
        },
        { generation: 2 },
      ),
    ],
  ],
]

const configuration = (failurePolicy: string, seconds = 60) =>
  object(
    'admissionregistration.k8s.io/ValidatingWebhookConfiguration',
    'w',
    { webhooks: [{ name: 'v.example.com', failurePolicy, clientConfig: { service: { namespace: 'n', name: 's' } } }] },
    { creationTimestamp: ago(seconds) },
  )

const webhooks: readonly Case[] = [
  ['no service', 'Degraded WebhookServiceMissing', [configuration('Fail')]],
  ['no service at first', 'Progressing WebhookServiceMissing', [configuration('Fail', 59)]],
  ['may be away', 'Healthy', [configuration('Ignore')]],
  ['services hidden', 'Healthy', [configuration('Fail')], [], ['Service']],
  ['answered', 'Healthy', [configuration('Fail'), service(), slice(true)]],
  ['nobody answers', 'Degraded SelectsNothing', [configuration('Fail'), service(), slice()]],
  [
    'nobody answers, slices hidden',
    'Healthy',
    [configuration('Fail'), service(), slice()],
    [],
    ['discovery.k8s.io/EndpointSlice'],
  ],
  ['its Pods crash', 'Degraded CrashLoopBackOff', [configuration('Fail'), service(), slice(false), crashing]],
  [
    'its Pods start',
    'Progressing Starting',
    [configuration('Fail'), service(), slice(false), pod({ container: { state: running(5) } })],
  ],
]

const converted = (versions: readonly string[]) => {
  const webhook = { clientConfig: { service: { namespace: 'n', name: 's' } } }
  return object(
    'apiextensions.k8s.io/CustomResourceDefinition',
    'queues.example.com',
    {
      spec: {
        group: 'example.com',
        names: { kind: 'Queue' },
        versions: versions.map((name) => ({ name, served: true })),
        conversion: { strategy: 'Webhook', webhook },
      },
      status: { storedVersions: ['v1'], conditions: [condition('Established', 'True', 60)] },
    },
    { creationTimestamp: ago(60) },
  )
}

const conversions: readonly Case[] = [
  ['no service', 'Degraded WebhookServiceMissing', [converted(['v1', 'v2'])]],
  ['one version: nothing is converted', 'Healthy', [converted(['v1'])]],
  ['stored in another version', 'Degraded WebhookServiceMissing', [converted(['v2'])]],
  ['services hidden', 'Healthy', [converted(['v1', 'v2'])], [], ['Service']],
  ['answered', 'Healthy', [converted(['v1', 'v2']), service(), slice(true)]],
  ['nobody answers', 'Degraded SelectsNothing', [converted(['v1', 'v2']), service(), slice()]],
  ['its Pods crash', 'Degraded CrashLoopBackOff', [converted(['v1', 'v2']), service(), slice(false), crashing]],
]

judgeTables(t, { services, ingresses, gateways, webhooks, conversions })

t.test('since: of what is absent nobody knows', async (t) => {
  t.equal(sinceOf([service(balanced), slice(true)]), 9000)
  t.equal(sinceOf([service()]), 'unknown')
  t.equal(sinceOf([ingress(toService)]), 'unknown')
  t.equal(sinceOf([configuration('Fail')]), 'unknown')
  t.equal(judge([configuration('Fail')]).atLeast, now)
})

t.test('a port that no Pod has is named', async (t) => {
  const { cause } = judge([sendsTo('http'), sliceWith(null, true)])
  t.match(cause, { kind: 'Service', name: 's', text: 'no Pod has a port named "http"', since: undefined })
})
