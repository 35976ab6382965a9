import t from 'tap'
import { ago, type Case, condition, deployment, event, judgeTables, object, pod, rolledOut, sinceOf } from './world.ts'

/** Rows of the tables of other kinds. The first object is the root. */

const statusOf = (...conditions: object[]) => ({ status: { conditions } })

const node = (conditions: readonly object[], spec: object = {}, created = 9000) =>
  object('Node', 'node-1', { spec, status: { conditions } }, { creationTimestamp: ago(created) })

const readyNode = condition('Ready', 'True', 9000)

const nodes: readonly Case[] = [
  ['ready', 'Healthy', [node([readyNode])]],
  ['silent', 'Degraded NodeUnreachable', [node([condition('Ready', 'Unknown', 1, 'NodeStatusUnknown', 'stopped')])]],
  [
    'not ready',
    'Degraded NodeNotReady',
    [node([condition('Ready', 'False', 1, 'KubeletNotReady', 'no network plugin')])],
  ],
  ['new', 'Progressing NodeNotReady', [node([condition('Ready', 'False', 100, 'KubeletNotReady')], {}, 299)]],
  ...['MemoryPressure', 'DiskPressure', 'PIDPressure', 'NetworkUnavailable'].map(
    (type): Case => [type, `Degraded ${type}`, [node([readyNode, condition(type, 'True', 1)])]],
  ),
  ['cordoned', 'Suspended Cordoned', [node([readyNode], { unschedulable: true })]],
]

const claim = (status: object, spec: object = {}, seconds = 9000, annotations: object = {}) =>
  object('PersistentVolumeClaim', 'c', { spec, status }, { creationTimestamp: ago(seconds), annotations })

const pending = { phase: 'Pending' }

const fast = { storageClassName: 'fast' }

const storageClass = (volumeBindingMode = 'Immediate') =>
  object('storage.k8s.io/StorageClass', 'fast', { volumeBindingMode })

const user = (seconds: number, nodeName = 'node-1') =>
  pod({
    spec: { nodeName, volumes: [{ persistentVolumeClaim: { claimName: 'c' } }] },
    metadata: { creationTimestamp: ago(seconds) },
  })

const chosen = { 'volume.kubernetes.io/selected-node': 'node-1' }

const claims: readonly Case[] = [
  ['bound', 'Healthy', [claim({ phase: 'Bound' })]],
  ['lost', 'Degraded VolumeLost', [claim({ phase: 'Lost' })]],
  ['no such class', 'Degraded StorageClassMissing', [claim(pending, fast, 60)]],
  ['no such class at first', 'Progressing StorageClassMissing', [claim(pending, fast, 59)]],
  ['classes hidden', 'Progressing NotBound', [claim(pending, fast)], [], ['storage.k8s.io/StorageClass']],
  [
    'not provisioned',
    'Degraded ProvisioningFailed',
    [claim(pending, fast), storageClass()],
    [event(claim(pending), 'ProvisioningFailed', 'no')],
  ],
  [
    'none fits',
    'Degraded FailedBinding',
    [claim(pending)],
    [event(claim(pending), 'FailedBinding', 'no', { type: 'Normal' })],
  ],
  [
    'none fits at first',
    'Progressing FailedBinding',
    [claim(pending)],
    [event(claim(pending), 'FailedBinding', 'no', { firstTimestamp: ago(119) })],
  ],
  [
    'waits for a consumer',
    'Suspended WaitForFirstConsumer',
    [claim(pending, fast), storageClass('WaitForFirstConsumer')],
  ],
  [
    'waits, Pods hidden',
    'Progressing NotBound',
    [claim(pending, fast), storageClass('WaitForFirstConsumer')],
    [],
    ['Pod'],
  ],
  [
    'its consumer has no node',
    'Progressing NotBound',
    [claim(pending, fast), storageClass('WaitForFirstConsumer'), user(900, '')],
  ],
  [
    'its consumer has a node',
    'Degraded NotBound',
    [claim(pending, fast, 9000, chosen), storageClass('WaitForFirstConsumer'), user(300)],
  ],
  ['unused', 'Progressing NotBound', [claim(pending)]],
  ['used', 'Progressing NotBound', [claim(pending), user(299)]],
  ['used for long', 'Degraded NotBound', [claim(pending), user(300)]],
]

const autoscaler = (...conditions: object[]) =>
  object('autoscaling/HorizontalPodAutoscaler', 'h', {
    spec: { scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web' } },
    status: { conditions: [condition('AbleToScale', 'True', 900), ...conditions] },
  })

const inactive = (seconds: number, reason = 'FailedGetResourceMetric') =>
  condition('ScalingActive', 'False', seconds, reason, 'no metrics')

const scaled = rolledOut

const autoscalers: readonly Case[] = [
  ['measures', 'Healthy', [autoscaler(condition('ScalingActive', 'True', 900)), scaled]],
  ['disabled', 'Suspended ScalingDisabled', [autoscaler(inactive(900, 'ScalingDisabled')), scaled]],
  ['does not measure yet', 'Progressing FailedGetResourceMetric', [autoscaler(inactive(119)), scaled]],
  ['does not measure', 'Degraded FailedGetResourceMetric', [autoscaler(inactive(120)), scaled]],
  ['its target rolls out', 'Progressing FailedGetResourceMetric', [autoscaler(inactive(900)), deployment({}, {})]],
  [
    'its target is hidden',
    'Degraded FailedGetResourceMetric',
    [autoscaler(inactive(900)), deployment({}, {})],
    [],
    ['apps/Deployment'],
  ],
  [
    'has no target',
    'Degraded FailedGetScale',
    [
      object(
        'autoscaling/HorizontalPodAutoscaler',
        'h',
        statusOf(condition('AbleToScale', 'False', 120, 'FailedGetScale', 'not found')),
      ),
    ],
  ],
  [
    'in version 1',
    'Degraded FailedGetResourceMetric',
    [
      {
        ...object(
          'autoscaling/HorizontalPodAutoscaler',
          'h',
          {},
          { annotations: { 'autoscaling.alpha.kubernetes.io/conditions': JSON.stringify([inactive(120)]) } },
        ),
        apiVersion: 'autoscaling/v1',
      },
    ],
  ],
  [
    'waits after the last time',
    'Healthy',
    [
      object(
        'autoscaling/HorizontalPodAutoscaler',
        'h',
        statusOf(
          condition('AbleToScale', 'False', 900, 'BackoffBoth', 'soon'),
          condition('ScalingLimited', 'True', 900),
        ),
      ),
    ],
  ],
]

const apiService = (...conditions: object[]) =>
  object('apiregistration.k8s.io/APIService', 'v1.x', statusOf(...conditions))

const definition = (...conditions: object[]) =>
  object('apiextensions.k8s.io/CustomResourceDefinition', 'x', statusOf(...conditions))

const extensions: readonly Case[] = [
  [
    'API away',
    'Degraded MissingEndpoints',
    [apiService(condition('Available', 'False', 60, 'MissingEndpoints', 'none'))],
  ],
  [
    'API away for a moment',
    'Progressing MissingEndpoints',
    [apiService(condition('Available', 'False', 59, 'MissingEndpoints', 'none'))],
  ],
  [
    'names taken',
    'Degraded KindConflict',
    [definition(condition('NamesAccepted', 'False', 1, 'KindConflict', 'taken'))],
  ],
  ['not established', 'Degraded NotAccepted', [definition(condition('Established', 'False', 1, 'NotAccepted', 'no'))]],
  [
    'is being established',
    'Progressing Installing',
    [definition(condition('Established', 'False', 1, 'Installing', 'soon'))],
  ],
  [
    'no schema',
    'Degraded Violations',
    [definition(condition('Established', 'True', 1), condition('NonStructuralSchema', 'True', 1, 'Violations', 'no'))],
  ],
]

const namespace = (type: string, reason: string, seconds: number) =>
  object('Namespace', 'n', statusOf(condition(type, 'True', seconds, reason, 'it says so')), {
    deletionTimestamp: ago(900),
  })

const namespaces: readonly Case[] = [
  ['is deleted', 'Progressing Terminating', [object('Namespace', 'n', {}, { deletionTimestamp: ago(119) })]],
  ['nobody deletes it', 'Degraded NotReconciled', [object('Namespace', 'n', {}, { deletionTimestamp: ago(120) })]],
  [
    'its own finalizer',
    'Degraded DeletionBlocked',
    [object('Namespace', 'n', {}, { deletionTimestamp: ago(900), finalizers: ['example.com/clean'] })],
  ],
  ['discovery', 'Degraded DiscoveryFailed', [namespace('NamespaceDeletionDiscoveryFailure', 'DiscoveryFailed', 120)]],
  [
    'discovery at first',
    'Progressing DiscoveryFailed',
    [namespace('NamespaceDeletionDiscoveryFailure', 'DiscoveryFailed', 119)],
  ],
  [
    'content',
    'Degraded ContentDeletionFailed',
    [namespace('NamespaceDeletionContentFailure', 'ContentDeletionFailed', 120)],
  ],
  [
    'finalizers',
    'Degraded SomeFinalizersRemain',
    [namespace('NamespaceFinalizersRemaining', 'SomeFinalizersRemain', 120)],
  ],
  [
    'finalizers of an object',
    'Degraded DeletionBlocked',
    [
      namespace('NamespaceFinalizersRemaining', 'SomeFinalizersRemain', 120),
      object('ConfigMap', 'c', {}, { deletionTimestamp: ago(400), finalizers: ['x'] }),
    ],
  ],
  [
    'resources',
    'Progressing SomeResourcesRemain',
    [namespace('NamespaceContentRemaining', 'SomeResourcesRemain', 900)],
  ],
]

const thing = (...conditions: object[]) => object('example.com/Thing', 't', statusOf(...conditions))

const others: readonly Case[] = [
  ...['Stalled', 'Degraded', 'Failed'].map(
    (type): Case => [type, 'Degraded Why', [thing(condition(type, 'True', 0, 'Why'))]],
  ),
  ...['Ready', 'Available', 'Healthy', 'Synced'].flatMap((type): Case[] => [
    [`not ${type} yet`, 'Progressing Why', [thing(condition(type, 'False', 299, 'Why'))]],
    [`not ${type}`, 'Degraded Why', [thing(condition(type, 'False', 300, 'Why'))]],
    [`perhaps ${type}`, 'Progressing Why', [thing(condition(type, 'Unknown', 900, 'Why'))]],
    [type, 'Healthy', [thing(condition(type, 'True', 1))]],
  ]),
  ['without a reason', 'Degraded Ready', [thing(condition('Ready', 'False', 300))]],
  ['conditions that nobody knows', 'Healthy', [thing(condition('Progressing', 'False', 300))]],
  [
    'a budget of one Pod',
    'Healthy',
    [
      object(
        'policy/PodDisruptionBudget',
        'b',
        statusOf(condition('DisruptionAllowed', 'False', 900, 'InsufficientPods')),
      ),
    ],
  ],
  [
    'a quota that is full',
    'Healthy',
    [object('ResourceQuota', 'q', { status: { hard: { pods: '1' }, used: { pods: '1' } } })],
  ],
]

judgeTables(t, { nodes, claims, autoscalers, extensions, namespaces, others })

t.test('since', async (t) => {
  t.equal(sinceOf([claim(pending, fast, 88)]), 88)
  const cordoned = { unschedulable: true, taints: [{ key: 'node.kubernetes.io/unschedulable', timeAdded: ago(99) }] }
  t.equal(sinceOf([node([readyNode], cordoned)]), 99)
})
