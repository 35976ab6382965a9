import t from 'tap'
import { Interned } from '../../../../../../src/agentk/modules/views/store/interned.ts'
import { recordFields } from '../../../../../../src/agentk/modules/views/store/object-record.ts'
import type { FollowState, RecordChange } from '../../../../../../src/agentk/modules/views/store/record.ts'
import { Records } from '../../../../../../src/agentk/modules/views/store/records.ts'
import { Rules } from '../../../../../../src/agentk/modules/views/store/rules.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'
import { kindOf, kinds, object, ownedBy } from '../objects.ts'

const { pod, replicaSet, statefulSet, claim, service, slice, node, configMap } = kinds

function start(options?: { maxObjects: number }) {
  const clock = new ManualClock()
  const interned = new Interned()
  const records = new Records({ clock, rules: new Rules([], []), interned }, options)
  const changes: string[] = []
  records.onChange(({ before, after }: RecordChange) => {
    const sign = before && after ? '~' : after ? '+' : '-'
    changes.push(`${sign}${(after ?? before)?.uid}`)
  })
  const told = () => changes.splice(0).join(' ')
  return { clock, records, interned, told }
}

const uids = (found: Iterable<{ uid: string }>) => [...found].map(({ uid }) => uid).sort()
const running = (more: object = {}) => ({ phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }], ...more })
const live: FollowState = { is: 'live', since: 1, why: '', refusedNamespaces: [], leftOut: [] }

const stateOf = (records: Records, kind: string) => [...records.states.all()].find(([{ key }]) => key === kind)?.[1]

t.test('what is kept of an object', async (t) => {
  const { records, told } = start()
  const labels = { app: 'web', 'app.gitlab.com/project_id': '17', 'app.gitlab.com/environment_slug': 'production' }
  const owners = [ownedBy(replicaSet, 'r')]
  const spec = { restartPolicy: 'Always', nodeName: 'n1' }
  records.put(pod, object({ uid: 'p', name: 'web-1', labels, owners, created: 1000, spec, status: running() }))
  t.same(Object.fromEntries(recordFields.map((field) => [field, records.get('p')?.[field]])), {
    claim: undefined,
    uid: 'p',
    name: 'web-1',
    namespace: 'shop',
    kind: pod,
    labels: new Map(Object.entries(labels)),
    owner: { uid: 'r', kind: 'apps/ReplicaSet', name: 'name-r' },
    otherOwners: [],
    customParent: undefined,
    created: 1000,
    generation: 0,
    node: 'n1',
    health: { argo: 'Healthy', kstatus: 'Current', argoText: '', kstatusText: 'Pod is Ready', by: 'rules' },
    facts: ['Running', 'node n1'],
    selector: undefined,
    references: [],
    traits: undefined,
    environment: '17/production',
    application: '',
  })
  t.equal(told(), '+p')
  t.equal(records.size, 1)
  t.equal(records.named('Pod', 'shop', 'web-1'), records.get('p'))
  t.same(uids(records.inNamespace('Pod', 'shop')), ['p'])
  t.same(uids(records.all()), ['p'])
})

t.test('what leaves a record equal is no change', async (t) => {
  const { records, told } = start()
  const seen = (more: object) => object({ uid: 'p', labels: { app: 'web' }, status: running(more) })
  records.put(pod, seen({}))
  const first = records.get('p')
  records.put(pod, seen({ podIP: '10.0.0.1' }))
  records.put(pod, { ...seen({}), kind: 'Pod', apiVersion: 'v1' })
  t.equal(records.get('p'), first)
  t.equal(told(), '+p')
  records.put(pod, seen({ phase: 'Failed' }))
  t.equal(told(), '~p')
  t.equal(first?.health?.argo, 'Progressing')
  t.equal(records.get('p')?.health?.argo, 'Degraded', 'another record took its place')
})

t.test('children are those that name an owner, and those that name none but are its by custom', async (t) => {
  const { records } = start()
  const labels = { 'kubernetes.io/service-name': 'web' }
  records.put(service, object({ uid: 's', name: 'web' }))
  records.put(slice, object({ uid: 'e1', labels }))
  records.put(slice, object({ uid: 'e2', labels, namespace: 'other' }))
  records.put(slice, object({ uid: 'e3', labels, owners: [ownedBy(service, 's', 'forged')] }))
  const parent = records.get('s')
  t.ok(parent)
  const children = () => uids(parent ? records.claiming(parent) : [])
  t.same(children(), ['e1', 'e3'])
  t.same(records.get('e1')?.customParent, { kind: 'Service', name: 'web' })
  t.equal(records.get('e3')?.customParent, undefined)
  records.put(slice, object({ uid: 'e1', labels: {} }))
  records.put(slice, object({ uid: 'e3', labels, owners: [ownedBy(node, 'n')] }))
  t.same(children(), [])
  records.deleted(slice, 'e1')
  records.put(slice, object({ uid: 'e3', labels, owners: [ownedBy(service, 's')] }))
  t.same(children(), ['e3'])
})

t.test('a claim may be of each StatefulSet that its name holds, and none of them changes it', async (t) => {
  const { records, told } = start()
  const set = (uid: string, name: string) => records.put(statefulSet, object({ uid, name }))
  const below = (uid: string) => {
    const parent = records.get(uid)
    return uids(parent ? records.claiming(parent) : [])
  }
  records.put(claim, object({ uid: 'c', name: 'redis-data-redis-master-0' }))
  set('m', 'master')
  set('r', 'redis-master')
  t.equal(told(), '+c +m +r')
  t.same([below('m'), below('r')], [['c'], ['c']])
  records.put(claim, object({ uid: 'c', name: 'redis-data-redis-master-0', owners: [ownedBy(statefulSet, 'x')] }))
  t.same([below('m'), below('r')], [[], []])
  records.deleted(statefulSet, 'r')
  t.equal(told(), '~c -r')
})

t.test('a list tells what is gone', async (t) => {
  const { records, told } = start()
  const put = (uid: string, namespace = 'shop') => records.put(pod, object({ uid, namespace }))
  records.listing(pod, undefined)
  for (const uid of ['a', 'b', 'c']) put(uid)
  records.put(configMap, object({ uid: 'm' }))
  records.listed(pod, undefined)
  t.equal(told(), '+a +b +c +m')
  records.listing(pod, undefined)
  put('b')
  put('d')
  records.deleted(pod, 'c')
  t.equal(told(), '+d -c', 'until it ends nothing else goes')
  records.listed(pod, undefined)
  t.equal(told(), '-a')
  records.listed(pod, undefined)
  t.equal(told(), '', 'one that has not begun')
})

t.test('a list that begins anew knows nothing of the one before', async (t) => {
  const { records, told } = start()
  const put = (uid: string) => records.put(pod, object({ uid }))
  put('a')
  put('b')
  records.listing(pod, undefined)
  put('a')
  records.listing(pod, undefined)
  put('b')
  told()
  records.listed(pod, undefined)
  t.equal(told(), '-a')
})

t.test('a list of one namespace tells of it alone', async (t) => {
  const { records, told } = start()
  const put = (uid: string, namespace: string) => records.put(pod, object({ uid, namespace }))
  put('a', 'one')
  put('b', 'one')
  put('c', 'two')
  records.listing(pod, 'one')
  records.listing(pod, 'two')
  put('b', 'one')
  told()
  records.listed(pod, 'one')
  t.equal(told(), '-a')
  records.dropped(pod, 'two')
  t.equal(told(), '-c')
  records.listed(pod, 'two')
  t.equal(told(), '')
  t.same(uids(records.all()), ['b'])
})

t.test('what has the name of another takes its place', async (t) => {
  const { records, told } = start()
  records.put(pod, object({ uid: 'old', name: 'web-0' }))
  records.put(pod, object({ uid: 'new', name: 'web-0' }))
  t.equal(told(), '+old -old +new')
  records.deleted(pod, 'old')
  t.equal(records.named('Pod', 'shop', 'web-0')?.uid, 'new')
  records.put(pod, object({ uid: 'new', name: 'web-1' }))
  t.equal(told(), '-new +new')
  t.equal(records.named('Pod', 'shop', 'web-0'), undefined)
  t.equal(records.size, 1)
})

t.test('an object that two groups serve is the first ones', async (t) => {
  const { records, told } = start()
  const other = kindOf('extensions/Deployment', 'deployments')
  records.put(kinds.deployment, object({ uid: 'd' }))
  records.listing(other, undefined)
  records.put(other, object({ uid: 'd' }))
  records.listed(other, undefined)
  records.deleted(other, 'd')
  records.dropped(other, undefined)
  t.equal(told(), '+d')
  t.equal(records.get('d')?.kind, kinds.deployment)
})

t.test('of metadata alone there is no verdict', async (t) => {
  const { records } = start()
  const partial = { apiVersion: 'meta.k8s.io/v1', kind: 'PartialObjectMetadata' }
  records.put(configMap, { ...object({ uid: 'm' }), ...partial })
  t.equal(records.get('m')?.health, undefined)
  records.put(configMap, object({ uid: 'm' }))
  t.match(records.get('m')?.health, { argo: '', kstatus: 'Current' })
})

t.test('what is no object changes nothing', async (t) => {
  const { records, told } = start()
  for (const odd of [{}, { metadata: null }, { metadata: { uid: 'u' } }, { metadata: { name: 'n' } }])
    records.put(pod, odd)
  records.deleted(pod, 'unknown')
  records.dropped(pod, undefined)
  t.equal(told(), '')
  t.equal(records.size, 0)
})

t.test('a listener hears until it goes', async (t) => {
  const { records } = start()
  const heard: unknown[] = []
  const stop = records.onChange((change) => heard.push(change))
  records.put(pod, object({ uid: 'p', status: { phase: 'Succeeded' } }))
  stop()
  records.deleted(pod, 'p')
  t.same(heard, [{ before: undefined, after: heard.length && (heard[0] as RecordChange).after }])
  t.match(heard, [{ after: { uid: 'p' } }])
})

const conditions = [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable' }]
const unscheduled = (uid: string, created: number, more: object = {}) =>
  object({ uid, created, status: { phase: 'Pending', conditions, ...more } })

t.test('time alone changes a verdict, with one timer', async (t) => {
  const { clock, records, told } = start()
  records.put(pod, unscheduled('a', clock.now()))
  records.put(pod, unscheduled('b', clock.now() - 5000))
  records.put(pod, unscheduled('c', clock.now() - 60_000))
  t.equal(clock.pending, 2, 'one of verdicts, one of causes')
  t.equal(records.get('c')?.health?.kstatus, 'Failed', 'it is over already')
  t.equal(told(), '+a +b +c')
  clock.advance(9999)
  t.equal(told(), '')
  clock.advance(1)
  t.equal(told(), '~b')
  t.match(records.get('b')?.health, { kstatus: 'Failed', kstatusText: 'Pod could not be scheduled' })
  clock.advance(5000)
  t.equal(told(), '~a')
  t.equal(clock.pending, 1)
  clock.advance(120_000)
  t.equal(told(), '~c ~b ~a', 'their causes have had their grace')
  t.equal(clock.pending, 0)
})

t.test('a verdict that is due goes with its object, and with what changes it', async (t) => {
  const { clock, records, told } = start()
  for (const uid of ['a', 'b', 'c']) records.put(pod, unscheduled(uid, clock.now()))
  records.deleted(pod, 'a')
  records.put(pod, object({ uid: 'b', created: clock.now(), status: running() }))
  records.put(pod, unscheduled('c', clock.now(), { podIP: 'x' }))
  told()
  clock.advance(15_000)
  t.equal(told(), '~c', 'equal ones keep it')
  records.put(pod, unscheduled('d', clock.now()))
  records.deleted(pod, 'd')
  t.equal(clock.pending, 1, 'that of causes')
  records.put(pod, unscheduled('e', clock.now()))
  records.stop()
  t.equal(clock.pending, 0)
})

t.test('a time in the far future keeps no timer busy', async (t) => {
  const { clock, records, told } = start()
  records.put(pod, unscheduled('a', Date.parse('9999-01-01T00:00:00Z')))
  t.equal(told(), '+a')
  clock.advance(3_600_000)
  t.equal(told(), '~a', 'its cause has had its grace')
  t.equal(clock.pending, 1)
  records.put(pod, unscheduled('b', clock.now()))
  clock.advance(15_000)
  t.equal(told(), '+b ~b', 'it holds up no other')
})

t.test('past so many objects the largest kind without rules goes, and says so', async (t) => {
  const { records, told } = start({ maxObjects: 10 })
  const roles = kindOf('rbac.authorization.k8s.io/Role', 'roles')
  let states = 0
  records.states.onChange(() => states++)
  records.state(configMap, live)
  records.put(roles, object({ uid: 'role' }))
  for (let i = 0; i < 6; i++) records.put(pod, object({ uid: `p${i}` }))
  for (let i = 0; i < 3; i++) records.put(configMap, object({ uid: `m${i}` }))
  told()
  t.equal(states, 1)
  records.put(pod, object({ uid: 'p6' }))
  t.equal(told(), '-m0 -m1 -m2 +p6')
  t.equal(states, 2)
  const why = 'the cluster has more than 10 objects'
  t.match(stateOf(records, 'ConfigMap'), { is: 'refused', why })
  records.put(configMap, object({ uid: 'm7' }))
  t.equal(told(), '', 'it is not kept any more')
  for (const uid of ['p7', 'p8', 'p9']) records.put(pod, object({ uid }))
  t.equal(told(), '+p7 +p8 -role +p9')
  t.match(stateOf(records, roles.key), { is: 'refused', why })
  t.equal(records.size, 10)
})

t.test('of kinds with rules the largest goes, as a whole', async (t) => {
  const { records, told } = start({ maxObjects: 4 })
  records.put(service, object({ uid: 's' }))
  for (let i = 0; i < 3; i++) records.put(pod, object({ uid: `p${i}` }))
  told()
  records.put(pod, object({ uid: 'p3' }))
  t.equal(told(), '-p0 -p1 -p2')
  t.same(uids(records.all()), ['s'])
  t.equal(stateOf(records, 'Pod')?.is, 'refused')
})

t.test('what went for want of room comes back with its next list, when there is room', async (t) => {
  const { records, told } = start({ maxObjects: 4 })
  const list = () => {
    records.listing(configMap, undefined)
    records.put(configMap, object({ uid: 'm' }))
    records.listed(configMap, undefined)
  }
  records.state(configMap, live)
  list()
  for (let i = 0; i < 4; i++) records.put(pod, object({ uid: `p${i}` }))
  t.equal(told(), '+m +p0 +p1 +p2 -m +p3')
  list()
  t.equal(told(), '')
  t.equal(stateOf(records, 'ConfigMap')?.is, 'refused')
  records.deleted(pod, 'p0')
  told()
  list()
  t.equal(told(), '+m')
  t.same(stateOf(records, 'ConfigMap'), live)
})

t.test('states are kept by kind until the kind is dropped', async (t) => {
  const { records } = start()
  let told = 0
  const stop = records.states.onChange(() => told++)
  records.state(pod, live)
  records.dropped(pod, 'shop')
  t.same(
    [...records.states.all()].map(([{ key }, state]) => [key, state]),
    [['Pod', live]],
  )
  records.dropped(pod, undefined)
  t.same([...records.states.all()], [])
  t.equal(told, 2)
  stop()
  records.state(pod, live)
  t.equal(told, 2)
})

t.test('what is equal is kept once, also when much has come and gone', async (t) => {
  const { records, interned } = start()
  const owners = [ownedBy(replicaSet, 'r')]
  const put = (uid: string) =>
    records.put(
      pod,
      object({ uid, owners, labels: { app: 'web', hash: 'x' }, spec: { nodeName: 'n1' }, status: running() }),
    )
  put('a')
  put('b')
  const shared = (one: string, other: string) => {
    const [first, second] = [records.get(one), records.get(other)]
    t.ok(first && second)
    for (const field of ['labels', 'owner', 'otherOwners', 'health', 'facts', 'references'] as const) {
      t.equal(first?.[field], second?.[field], field)
    }
  }
  shared('a', 'b')
  let most = 0
  for (let i = 0; i < 20_000; i++) {
    records.put(configMap, object({ uid: 'm', labels: { [`label-${i}`]: `value-${i}` } }))
    most = Math.max(most, interned.size)
  }
  t.ok(most > 16_000 && most <= 16_384, 'what no record has any more is swept')
  put('c')
  shared('a', 'c')
})

t.test('what lives is not swept while it grows', async (t) => {
  const { records, interned } = start()
  let sweeps = 0
  t.intercept(interned, 'sweep', { value: () => sweeps++ })
  for (let i = 0; i < 10_000; i++) records.put(configMap, object({ uid: `m${i}`, labels: { app: `app-${i}` } }))
  t.ok(interned.size > 16_384)
  t.equal(sweeps, 0)
})
