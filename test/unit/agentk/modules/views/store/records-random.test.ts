import t, { type Test } from 'tap'
import { vendorRules } from '../../../../../../src/agentk/health/custom/vendors.ts'
import { Interned } from '../../../../../../src/agentk/modules/views/store/interned.ts'
import { customParentsOf } from '../../../../../../src/agentk/modules/views/store/object-record.ts'
import type { ObjectRecord } from '../../../../../../src/agentk/modules/views/store/record.ts'
import { Records } from '../../../../../../src/agentk/modules/views/store/records.ts'
import { Rules } from '../../../../../../src/agentk/modules/views/store/rules.ts'
import type { ResourceKind } from '../../../../../../src/kubernetes/kind.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'
import { Seeded } from '../../../../../support/seeded.ts'
import { kindOf, kinds, object, ownedBy } from '../objects.ts'

const { pod, replicaSet, statefulSet, claim, service, slice, configMap } = kinds
const followed = [pod, replicaSet, statefulSet, claim, service, slice, configMap]
const namespaces = ['one', 'two']
const names = ['web', 'data-web', 'data-web-0', 'my-data-web-0', 'my-data-web-1', 'other']
const uids = Array.from({ length: 24 }, (_, i) => `u${i}`)

type Object = Record<string, unknown>
type Metadata = { readonly name: string; readonly namespace: string }

/** Does the same with a list of objects, and reads the whole list each time. */
class Model {
  readonly objects = new Map<string, { readonly kind: ResourceKind; readonly object: Object }>()
  readonly #lists = new Map<string, { kind: ResourceKind; namespace: string | undefined; unseen: Set<string> }>()

  put(kind: ResourceKind, uid: string, object: Object): void {
    const known = this.objects.get(uid)
    if (known && known.kind !== kind) return
    const { name, namespace } = object.metadata as Metadata
    for (const [other, one] of this.objects) {
      const metadata = one.object.metadata as Metadata
      if (one.kind === kind && metadata.name === name && metadata.namespace === namespace) this.objects.delete(other)
    }
    this.objects.set(uid, { kind, object })
    for (const list of this.#lists.values()) {
      if (list.kind === kind && (list.namespace ?? namespace) === namespace) list.unseen.delete(uid)
    }
  }

  deleted(kind: ResourceKind, uid: string): void {
    if (this.objects.get(uid)?.kind === kind) this.objects.delete(uid)
  }

  listing(kind: ResourceKind, namespace: string | undefined): void {
    this.#lists.set(`${kind.key} ${namespace}`, { kind, namespace, unseen: new Set(this.#in(kind, namespace)) })
  }

  listed(kind: ResourceKind, namespace: string | undefined): void {
    const key = `${kind.key} ${namespace}`
    for (const uid of this.#lists.get(key)?.unseen ?? []) this.deleted(kind, uid)
    this.#lists.delete(key)
  }

  dropped(kind: ResourceKind, namespace: string | undefined): void {
    for (const uid of this.#in(kind, namespace)) this.objects.delete(uid)
    for (const [key, list] of this.#lists) {
      if (list.kind === kind && (namespace === undefined || list.namespace === namespace)) this.#lists.delete(key)
    }
  }

  #in(kind: ResourceKind, namespace: string | undefined): string[] {
    const found = [...this.objects].filter(
      ([, one]) =>
        one.kind === kind &&
        (namespace ?? (one.object.metadata as Metadata).namespace) === (one.object.metadata as Metadata).namespace,
    )
    return found.map(([uid]) => uid)
  }
}

function randomObject(random: Seeded, uid: string): Object {
  const owner = () =>
    ownedBy(random.pick(followed), random.pick(uids), random.pick(names), { controller: random.chance(0.5) })
  const labels = { 'kubernetes.io/service-name': random.pick(names), app: random.pick(names) }
  return object({
    uid,
    name: random.pick(names),
    namespace: random.pick(namespaces),
    labels: random.chance(0.6) ? labels : {},
    owners: random.chance(0.4) ? random.list(2, owner) : [],
    spec: { replicas: random.int(3), nodeName: random.pick(names) },
    status: { readyReplicas: random.int(3), phase: random.pick(['Running', 'Pending', 'Failed']) },
  })
}

const sorted = (records: Iterable<ObjectRecord>) => [...records].sort((one, other) => (one.uid < other.uid ? -1 : 1))
const uidsOf = (records: Iterable<ObjectRecord>) => sorted(records).map(({ uid }) => uid)

function isClaimedBy(child: ObjectRecord, parent: ObjectRecord): boolean {
  if (child.owner) return child.owner.uid === parent.uid
  const isParent = ({ kind, name }: { kind: string; name: string }) => kind === parent.kind.key && name === parent.name
  return child.namespace === parent.namespace && customParentsOf(child).some(isParent)
}

function compare(t: Test, records: Records, model: Model, random: Seeded): void {
  const fresh = start()
  for (const { kind, object } of random.shuffled([...model.objects.values()])) fresh.put(kind, object)
  const all = sorted(records.all())
  t.same(all, sorted(fresh.all()), 'as built anew')
  t.equal(records.size, all.length)
  for (const record of all) {
    t.equal(records.named(record.kind.key, record.namespace, record.name), record)
    t.same(uidsOf(records.claiming(record)), uidsOf(all.filter((child) => isClaimedBy(child, record))))
  }
  for (const { key } of followed) {
    for (const namespace of namespaces) {
      const there = all.filter((one) => one.kind.key === key && one.namespace === namespace)
      t.same(uidsOf(records.inNamespace(key, namespace)), uidsOf(there))
      const taken = new Set(there.map(({ name }) => name))
      for (const name of names) if (!taken.has(name)) t.equal(records.named(key, namespace, name), undefined)
    }
  }
}

const start = () => new Records({ clock: new ManualClock(), rules: new Rules([], []), interned: new Interned() })

t.test('after random changes all is as if built anew, and listeners know the same', async (t) => {
  const random = Seeded.for(t)
  for (let world = 0; world < 20; world++) {
    const [records, model] = [start(), new Model()]
    const heard = new Map<string, ObjectRecord>()
    records.onChange(({ before, after }) => {
      const uid = (before ?? after)?.uid as string
      if (heard.get(uid) !== before) t.fail(`${uid} was not what it is said to have been`)
      if (after) heard.set(uid, after)
      else heard.delete(uid)
    })
    for (let step = 0; step < 300; step++) {
      const [kind, uid] = [random.pick(followed), random.pick(uids)]
      const namespace = random.pick([undefined, ...namespaces])
      const chance = random.int(100)
      if (chance < 70) {
        const seen = randomObject(random, uid)
        for (const each of [model.put.bind(model, kind, uid), records.put.bind(records, kind)]) each(seen)
      } else
        for (const each of [model, records]) {
          if (chance < 80) each.deleted(kind, uid)
          else if (chance < 88) each.listing(kind, namespace)
          else if (chance < 96) each.listed(kind, namespace)
          else each.dropped(kind, namespace)
        }
      if (step % 50 === 49) compare(t, records, model, random)
    }
    t.same(sorted(heard.values()), sorted(records.all()))
  }
})

const garbage: readonly unknown[] = [
  undefined,
  null,
  '',
  'text',
  7,
  -1,
  Number.POSITIVE_INFINITY,
  true,
  [],
  [null],
  ['x'],
  [[]],
  {},
  { x: null },
]

/** Returns the value with one random part replaced. */
function spoiled(random: Seeded, value: unknown, atRoot = true): unknown {
  if (typeof value !== 'object' || value === null || (!atRoot && random.chance(0.15))) return random.pick(garbage)
  const names = Object.keys(value)
  if (names.length === 0) return random.pick(garbage)
  const name = random.pick(names)
  const inner = spoiled(random, (value as Object)[name], false)
  return Array.isArray(value) ? value.with(Number(name), inner) : { ...value, [name]: inner }
}

t.test('no object, whatever is in it, breaks what reads it', async (t) => {
  const random = Seeded.for(t)
  const rules = new Rules([], await vendorRules())
  const records = new Records({ clock: new ManualClock(), rules, interned: new Interned() })
  const condition = { type: 'Ready', status: 'True', reason: 'Fine', message: 'all is well' }
  const container = {
    name: 'main',
    image: 'a/b:1',
    restartCount: 1,
    state: { waiting: { reason: 'x' } },
    lastState: {},
  }
  const whole = {
    ...object({ uid: 'u', name: 'data-web-0', labels: { app: 'web' }, owners: [ownedBy(replicaSet, 'r')] }),
    spec: {
      replicas: 1,
      selector: { matchLabels: { app: 'web' }, matchExpressions: [{ key: 'a', operator: 'In', values: ['b'] }] },
      template: { spec: { containers: [container] } },
      updateStrategy: { type: 'RollingUpdate', rollingUpdate: { partition: 1 } },
      scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web' },
      rules: [
        { host: 'h', http: { paths: [{ backend: { service: { name: 'web' } } }] }, backendRefs: [{ name: 'web' }] },
      ],
      hostnames: ['h'],
      claimRef: { namespace: 'shop', name: 'data-web-0' },
    },
    status: {
      phase: 'Pending',
      conditions: [condition, { ...condition, type: 'PodScheduled', status: 'False', reason: 'Unschedulable' }],
      containerStatuses: [container],
      initContainerStatuses: [container],
      loadBalancer: { ingress: [{ ip: '10.0.0.1' }] },
      inventory: { entries: [{ id: 'shop_web_apps_Deployment', v: 'v1' }] },
      history: [{ chartName: 'a', chartVersion: '1' }],
      sync: { status: 'Synced', revision: 'abc' },
      active: [{}],
      observedGeneration: 1,
    },
    endpoints: [{ conditions: { ready: true } }],
  }
  const read = [
    ...followed,
    kinds.deployment,
    ...[
      'apps/DaemonSet',
      'batch/Job',
      'batch/CronJob',
      'networking.k8s.io/Ingress',
      'gateway.networking.k8s.io/HTTPRoute',
      'PersistentVolume',
      'autoscaling/HorizontalPodAutoscaler',
      'policy/PodDisruptionBudget',
      'kustomize.toolkit.fluxcd.io/Kustomization',
      'helm.toolkit.fluxcd.io/HelmRelease',
      'argoproj.io/Application',
      'argoproj.io/Workflow',
      'apiregistration.k8s.io/APIService',
      'apiextensions.k8s.io/CustomResourceDefinition',
    ].map((key) => kindOf(key, 'any')),
  ]
  for (const { key } of read) await rules.ready(key)
  let kept = 0
  for (let i = 0; i < 3000; i++) {
    const kind = random.pick(read)
    const { metadata, ...rest } = spoiled(random, spoiled(random, whole)) as { metadata?: Object }
    const seen = { ...rest, metadata: typeof metadata === 'object' ? { ...metadata, uid: `u${i}` } : metadata }
    t.doesNotThrow(() => records.put(kind, seen), JSON.stringify(seen))
    if (records.get(`u${i}`)) kept++
  }
  t.ok(kept > 1000, 'most of them are read')
})
