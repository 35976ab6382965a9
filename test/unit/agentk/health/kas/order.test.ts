import t from 'tap'
import { argoHealth } from '../../../../../src/agentk/health/argo/argo.ts'
import { type KubernetesObject, kindOf } from '../../../../../src/kubernetes/object.ts'
import { judgedFor, Snapshot } from '../../../../support/situations/snapshot.ts'
import { condition, ended, event, now, object, ownedBy, pod, running, waiting } from './world.ts'

/** Random clusters: each object has the same verdict and cause in whatever order objects and events arrive. */

type Chance = (below: number) => number

function chanceOf(seed: number): Chance {
  let state = seed + 1
  return (below) => {
    state = (state * 48_271) % 2_147_483_647
    return state % below
  }
}

const states = [
  waiting('InvalidImageName', 'a'),
  waiting('ImagePullBackOff', 'Back-off pulling image "x"'),
  waiting('ContainerCreating'),
  { restartCount: 4, ...waiting('CrashLoopBackOff'), lastState: ended(137, 'Error', 50, 40) },
  { ready: true, started: true, state: running(900) },
  { started: true, state: running(20) },
]
const warnings = ['BackOff', 'FailedMount', 'Unhealthy', 'Failed'] as const

function cluster(chance: Chance) {
  const pick = <One>(list: readonly One[]) => list[chance(list.length)] as One
  const thing = object('example.com/Thing', 'above')
  const sets = Array.from({ length: 4 }, (_, i) => {
    const failure = condition('ReplicaFailure', 'True', chance(200), 'FailedCreate', 'failed calling webhook "v": EOF')
    const rest = {
      spec: { replicas: chance(5) },
      status: { replicas: chance(3), conditions: chance(2) ? [failure] : [] },
    }
    return ownedBy(thing, object('apps/ReplicaSet', `set-${i}`, rest))
  })
  const pods = Array.from({ length: 12 }, (_, i) => {
    const parts = {
      name: `pod-${i}`,
      ready: ['False', 50 * chance(20)] as const,
      spec: { nodeName: `node-${chance(3)}` },
    }
    return ownedBy(pick(sets), pod({ ...parts, container: pick(states) }))
  })
  const nodes = Array.from({ length: 3 }, (_, i) =>
    object('Node', `node-${i}`, { status: { conditions: [condition('Ready', pick(['True', 'Unknown']), 60)] } }),
  )
  const others = [
    object('Service', 's', { spec: { selector: { app: 'a' } } }),
    object('admissionregistration.k8s.io/MutatingWebhookConfiguration', 'w', {
      webhooks: [{ name: 'v', clientConfig: { service: { namespace: 'n', name: 's' } } }],
    }),
  ]
  const events = Array.from({ length: 30 }, (_, i) =>
    event(pick(pods), pick(warnings), pick(['Liveness probe failed: x', 'restarting failed container app']), {
      metadata: { name: `event-${i}` },
    }),
  )
  return { objects: [thing, ...sets, ...pods, ...nodes, ...others], events }
}

function shuffled<One>(list: readonly One[], chance: Chance): One[] {
  const result = [...list]
  for (let i = result.length - 1; i > 0; i--) result.push(...result.splice(chance(i + 1), 1))
  return result
}

function judgements(
  objects: readonly KubernetesObject[],
  events: readonly KubernetesObject[],
  hidden: readonly string[],
) {
  const snapshot = new Snapshot({ now, objects, events, verdicts: (one) => ({ argo: argoHealth(one) }) })
  const mayList = (kind: string) => !hidden.includes(kind)
  const places = objects.map((one) => [kindOf(one), one.metadata as { namespace?: string; name: string }] as const)
  const judged = places.map(([kind, { namespace = '', name }]) => [
    `${kind}/${name}`,
    judgedFor(snapshot, mayList, [kind, namespace, name]),
  ])
  return Object.fromEntries(judged)
}

t.test('forty clusters, each in four orders, for three callers', async (t) => {
  for (let seed = 0; seed < 40; seed++) {
    const { objects, events } = cluster(chanceOf(seed))
    for (const hidden of [[], ['Event'], ['Node', 'Service']]) {
      const expected = judgements(objects, events, hidden)
      for (let order = 1; order < 4; order++) {
        const chance = chanceOf(1000 * seed + order)
        const found = judgements(shuffled(objects, chance), shuffled(events, chance), hidden)
        t.strictSame(found, expected, `cluster ${seed}`)
      }
    }
  }
})
