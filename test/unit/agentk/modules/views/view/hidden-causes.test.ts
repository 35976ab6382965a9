import t from 'tap'
import { type KubernetesObject, kindOf, textAt } from '../../../../../../src/kubernetes/object.ts'
import { Seeded } from '../../../../../support/seeded.ts'
import { type ClusterStep, makeSteps, start } from '../../../../../support/views/cluster-world.ts'
import type { Right } from '../../../../../support/views/review-double.ts'
import { ClusterStage, rulesOf } from '../../../../../support/views/situation-view.ts'
import { user } from '../../../../../support/views/view-stage.ts'

/** Findings from relations, events and nodes reach only callers who can list these. The records are real ones. */

const worlds = Number(process.env.KAS_WORLDS ?? 200)
const namespaces = ['a', 'b']
const kinds = [
  'Pod',
  'Service',
  'Node',
  'Event',
  'PersistentVolumeClaim',
  'apps/Deployment',
  'apps/ReplicaSet',
  'apps/StatefulSet',
  'batch/CronJob',
  'batch/Job',
  'discovery.k8s.io/EndpointSlice',
  'storage.k8s.io/StorageClass',
  'networking.k8s.io/Ingress',
  'autoscaling/HorizontalPodAutoscaler',
  'admissionregistration.k8s.io/ValidatingWebhookConfiguration',
]
const clusterWide = new Set(['Node', 'storage.k8s.io/StorageClass', kinds.at(-1)])

/** Namespace in which each kind can be listed; '*': everywhere. */
type Rights = ReadonlyMap<string, string>

function makeRights(random: Seeded): Rights {
  const rights = new Map<string, string>()
  for (const kind of kinds) {
    if (random.chance(0.35)) continue
    rights.set(kind, clusterWide.has(kind) || random.chance(0.6) ? '*' : random.pick(namespaces))
  }
  return rights
}

function sees(rights: Rights, kind: string, namespace: string): boolean {
  const where = rights.get(kind)
  return where === '*' || (where !== undefined && where === namespace)
}

const namespaceOf = (object: KubernetesObject) => textAt(object, 'metadata.namespace')

const rules = await rulesOf([])

async function play(steps: readonly ClusterStep[], rights: Rights, isHiddenThere: boolean): Promise<readonly string[]> {
  const stage = new ClusterStage(start, rules)
  for (const kind of kinds)
    if (kind !== 'Event') stage.kind(kind, !clusterWide.has(kind), kind.includes('autosc') ? 'v2' : 'v1')
  // each namespace has an object of each kind, so agentk reviews the same rights in both runs
  for (const kind of kinds) {
    if (kind === 'Event') continue
    const [name, group] = [
      kind.slice(kind.indexOf('/') + 1),
      kind.includes('/') ? kind.slice(0, kind.indexOf('/')) : '',
    ]
    for (const namespace of clusterWide.has(kind) ? [''] : namespaces) {
      const version = kind.includes('autosc') ? 'v2' : 'v1'
      const metadata = { name: 'base', uid: `base ${kind} ${namespace}`, ...(namespace ? { namespace } : {}) }
      stage.put({ apiVersion: group ? `${group}/${version}` : version, kind: name, metadata, spec: {}, status: {} })
    }
  }
  for (const ns of namespaces) {
    const about = ['Pod', 'base', `base Pod ${ns}`] as const
    stage.events.put({ u: `e ${ns}`, ns, about, type: 'Warning', reason: 'x', text: 'x', count: 1, at: 1 })
  }
  stage.listed()
  const asRights = [...rights].map(([kind, where]): Right => {
    const { group, plural } = stage.resource(kind)
    return [`${group}/${plural}`, where]
  })
  stage.api.rights.set('ann', asRights)
  const views = [
    stage.open(user('ann'), { view: 'list', limit: 500 }),
    stage.open(user('ann'), { view: 'tree', scope: { namespaces: ['a'] }, limit: 100 }),
  ]
  await stage.pass(100)
  for (const step of steps) {
    const object = step.do === 'event' ? step.event : step.object
    const kind = step.do === 'event' ? 'Event' : kindOf(object)
    if (isHiddenThere || sees(rights, kind, namespaceOf(object))) {
      if (step.do === 'put') stage.put(object)
      else if (step.do === 'gone') stage.deleted(object)
      else stage.event(object)
    }
    await stage.pass(60)
  }
  for (let i = 0; i < 4; i++) await stage.pass(100)
  stage.close()
  return views.map(({ client }) => client.texts.join('\n'))
}

t.test('what may not be listed makes no difference to causes', { timeout: 300_000 }, async (t) => {
  const first = Number(process.env.KAS_SEED ?? 1)
  let [bytes, causes] = [0, 0]
  for (let seed = first; seed < first + worlds; seed++) {
    const random = new Seeded(seed)
    const rights = makeRights(random)
    const steps = makeSteps(random, 40)
    const [with_, without] = [await play(steps, rights, true), await play(steps, rights, false)]
    bytes += with_.join('').length
    causes += with_.join('').split('"z":').length - 1
    if (with_.join() === without.join()) continue
    const view = with_.findIndex((text, i) => text !== without[i])
    const [one, other] = [with_[view]?.split('\n') ?? [], without[view]?.split('\n') ?? []]
    const at = one.findIndex((text, i) => text !== other[i])
    t.fail(`KAS_SEED=${seed}, view ${view}, update ${at + 1}`, {
      rights: [...rights],
      with: one[at],
      without: other[at],
    })
    return
  }
  t.comment(`${bytes} bytes in ${worlds} worlds, ${causes} causes`)
  t.ok(causes > worlds)
})
