import { finding, type Need } from '../../../src/agentk/health/kas/finding.ts'
import { eventKind } from '../../../src/agentk/modules/views/access/list-rights.ts'
import type { Judgement } from '../../../src/agentk/modules/views/store/judgement.ts'
import type { FollowState, ObjectRecord } from '../../../src/agentk/modules/views/store/record.ts'
import type { VerdictSide } from '../../../src/agentk/modules/views/tree/severity.ts'
import type { ResourceKind } from '../../../src/kubernetes/kind.ts'
import type { KubernetesObject } from '../../../src/kubernetes/object.ts'
import type { ArgoWord, EventRow, Query } from '../../../src/proto/views-json.ts'
import type { Seeded } from '../seeded.ts'
import { kinds, recordOf } from './records.ts'
import { allows, type Right } from './review-double.ts'
import type { ViewClient } from './view-client.ts'
import { user, ViewStage } from './view-stage.ts'

const namespaces = ['a', 'b', 'c'] as const
const verdicts: readonly ArgoWord[] = ['', 'Healthy', 'Progressing', 'Degraded', 'Unknown']
const allKinds = Object.values(kinds)
/** kind of the objects that represent applications */
const deployer = kinds.configMap
/** Longest time until a lost right is noticed. ms */
const untilNoticedMs = 46_000

type Step =
  | {
      readonly do: 'put'
      readonly record: ObjectRecord
      readonly judgement?: Judgement
      readonly kept?: KubernetesObject
    }
  | { readonly do: 'delete'; readonly uid: string }
  | { readonly do: 'event'; readonly event: EventRow }
  | { readonly do: 'forget event'; readonly uid: string }
  | { readonly do: 'page'; readonly view: number; readonly node: string; readonly limit: number }
  | { readonly do: 'rights'; readonly phase: number }
  /** replaces the record of a visible object by an equal one, as a change of a hidden object does */
  | { readonly do: 'echo'; readonly uid: string }
  | { readonly do: 'state'; readonly kind: ResourceKind; readonly state: FollowState }

interface Timed {
  readonly step: Step
  readonly waitMs: number
  /** viewers acknowledge their updates */
  readonly takes: boolean
}

export interface World {
  /** rights of the viewer, one set after the other */
  readonly phases: readonly (readonly Right[])[]
  readonly queries: readonly Query[]
  readonly verdict: VerdictSide
  readonly steps: readonly Timed[]
}

export interface Outcome {
  readonly clients: readonly ViewClient[]
  /** views of the same queries, opened at the end */
  readonly fresh: readonly ViewClient[]
  readonly records: readonly ObjectRecord[]
  /** open pages of each view */
  readonly pages: readonly ReadonlyMap<string, number>[]
  readonly judged: ReadonlyMap<string, Judgement | undefined>
  /** returns true if the viewer may list a kind, or `Event`, in a namespace */
  readonly holds: (need: Need) => boolean
}

/**
 * Objects that name any others as owners, rightly or not, and a viewer who may list some of them. Each kind has an
 * object in each namespace all the time. A review's answer takes time, and requests in that time wait for it.
 */
export function makeWorld(random: Seeded): World {
  const cast = makeCast(random)
  const phases = [makeRights(random), ...(random.chance(0.3) ? [makeRights(random)] : [])]
  const queries = random.list(2, () => makeQuery(random))
  queries.push({ view: 'tree', limit: 20 }, { view: 'graph', graph: makeGraph(random) })
  const steps: Timed[] = []
  const add = (step: Step, waitMs = random.pick([0, 0, 5, 30, 60, 200])) =>
    steps.push({ step, waitMs, takes: random.chance(0.8) })
  for (const actor of base) add({ do: 'put', record: recordOf({ ...actor, verdict: 'Healthy' }) }, 0)
  for (const ns of namespaces) add({ do: 'event', event: eventOf(`e-${ns}`, ns, base[0] as Actor, 0, 0) }, 0)
  for (const one of cast) if (random.chance(0.7)) add(makePut(random, one, cast), 0)
  for (let i = 0; i < 40; i++) add(makeStep(random, cast, queries.length))
  if (phases.length > 1) {
    steps.push({ step: { do: 'rights', phase: 1 }, waitMs: untilNoticedMs, takes: true })
    for (let i = 0; i < 20; i++) add(makeStep(random, cast, queries.length))
  }
  const verdict = random.pick(['argo', 'kas', 'kas'] as const)
  return { phases, queries, verdict, steps }
}

const base = allKinds.flatMap((kind): Actor[] =>
  (kind.isNamespaced ? namespaces : ['']).map((namespace) => {
    const name = `base-${kind.plural}-${namespace}`
    return { uid: name, name, namespace, kind }
  }),
)

/** Objects of which most own the next one. */
const rings = Array.from({ length: 5 }, (_, index) => ({
  uid: `r${(index * 2) % 5}`,
  name: `r${index}`,
  namespace: 'a',
  kind: kinds.replicaSet,
}))

type Actor = Pick<ObjectRecord, 'uid' | 'name' | 'namespace' | 'kind'>

function makeCast(random: Seeded): Actor[] {
  const size = 20 + random.int(30)
  const cast = Array.from({ length: size }, (_, index): Actor => {
    const kind = random.pick(allKinds)
    const namespace = kind.isNamespaced ? random.pick(namespaces) : ''
    return { uid: `u${index}-${random.int(1000)}`, name: makeName(random, kind.key), namespace, kind }
  })
  cast.push(...rings)
  const taken = new Set<string>()
  for (const one of cast.splice(0)) {
    const place = `${one.kind.key} ${one.namespace} ${one.name}`
    if (!taken.has(place)) cast.push(one)
    taken.add(place)
  }
  if (!random.chance(0.2)) return cast
  const many = Array.from({ length: 60 }, (_, index) => ({
    uid: `m${index}`,
    name: `m${index}`,
    namespace: 'a',
    kind: kinds.pod,
  }))
  return [...cast, ...many]
}

/** Names of claims contain those of several StatefulSets. */
function makeName(random: Seeded, kind: string): string {
  const part = () => `x${random.int(3)}`
  if (kind === 'PersistentVolumeClaim') return `${part()}-${part()}-${part()}-0`
  if (kind === 'apps/StatefulSet') return random.chance(0.5) ? part() : `${part()}-${part()}`
  return `x${random.int(20)}`
}

function makeRights(random: Seeded): Right[] {
  if (random.chance(0.1)) return [['*/*', '*']]
  const rights = allKinds
    .filter(() => random.chance(0.6))
    .map(({ group, plural }): Right => [`${group}/${plural}`, random.chance(0.4) ? '*' : random.pick(namespaces)])
  return random.chance(0.5) ? [...rights, ['/events', random.pick([...namespaces, '*'])]] : rights
}

function makeQuery(random: Seeded): Query {
  const view = random.pick(['tree', 'tree', 'list', 'environments', 'events'] as const)
  const isEvents = view === 'events'
  const scope = {
    ...(random.chance(0.3) ? { namespaces: [random.pick(namespaces)] } : {}),
    ...(!isEvents && random.chance(0.2) ? { environment: '1/prod' } : {}),
    ...(!isEvents && random.chance(0.2) ? { application: 'one' } : {}),
  }
  const filter = {
    ...(random.chance(0.2) ? { text: 'X1' } : {}),
    ...(random.chance(0.2) ? { kinds: ['Pod', 'apps/Deployment'] } : {}),
    ...(!isEvents && random.chance(0.2) ? { verdicts: ['Degraded', 'Unknown'] as ArgoWord[] } : {}),
  }
  if (isEvents) return { view, scope, filter, limit: random.pick([3, 10, 100]) }
  const words = ['po', 'deployments', 'apps/ReplicaSet', 'no', 'secrets', 'none', 'all'] as const
  const objects = random.list(3, () => ({
    kind: random.pick(words),
    ...(random.chance(0.3) ? { name: `x${random.int(20)}` } : {}),
    ...(random.chance(0.3) ? { namespace: random.pick(namespaces) } : {}),
  }))
  const more = {
    ...(objects.length > 0 && random.chance(0.3) ? { objects } : {}),
    ...(random.chance(0.2) ? { labels: random.pick(['app=one', 'app notin (one)', '!app']) } : {}),
    ...(random.chance(0.3) ? { sort: random.pick(['name', 'age'] as const) } : {}),
  }
  const named = 'objects' in more && random.chance(0.5) ? 'object' : view
  return { view: named, scope, filter, ...more, limit: random.pick([3, 10, 100]) }
}

function makeGraph(random: Seeded): object {
  const kindTests = ['', "group == 'apps'", "resource in ['pods', 'configmaps', 'nodes']", 'namespaced']
  const objectTests = ['', '', "labels.app == 'one'", "name.startsWith('x1')"]
  const include = () => ({
    include: {
      resource_selector_expression: random.pick(kindTests),
      object: { object_selector_expression: random.pick(objectTests) },
    },
  })
  const both = random.pick([[], ['or'], ['r'], ['or', 'r']])
  const roots = { object_selector_expressions: ["resource == 'pods'"], ignore_arc_direction: both }
  return {
    queries: [
      ...random.list(1, () => ({ exclude: { resource_selector_expression: "group == 'apps'" } })),
      include(),
      include(),
    ],
    ...(random.chance(0.4) ? { namespaces: { object_selector_expression: "name != 'a'" } } : {}),
    ...(random.chance(0.4) ? { roots } : {}),
  }
}

function makeRecord(random: Seeded, { uid, name, namespace, kind }: Actor, cast: readonly Actor[]): ObjectRecord {
  const near = () => random.pick(cast.filter((one) => one.namespace === namespace || one.namespace === ''))
  const nextInRing = rings[(rings.findIndex((one) => one.uid === uid) + 1) % rings.length] as Actor
  const claim = () => {
    if (uid.startsWith('r') && random.chance(0.9)) return nextInRing
    const one = random.chance(0.7) ? (near() ?? random.pick(cast)) : random.pick(cast)
    if (random.chance(0.75)) return one
    const said = { uid: one.uid, kind: one.kind.key, name: one.name }
    return random.pick([
      { ...said, name: 'other' },
      { ...said, kind: 'Pod' },
      { ...said, uid: `gone-${random.int(5)}` },
    ])
  }
  const asOwner = (one: ReturnType<typeof claim>) => ({
    uid: one.uid,
    kind: typeof one.kind === 'string' ? one.kind : one.kind.key,
    name: one.name,
  })
  const custom = near()
  return recordOf({
    uid,
    name,
    namespace,
    kind,
    verdict: random.pick(verdicts),
    created: random.int(3),
    ...(random.chance(uid.startsWith('r') ? 0.95 : 0.6) ? { owner: asOwner(claim()) } : {}),
    ...(random.chance(0.3) && custom ? { customParent: { kind: custom.kind.key, name: custom.name } } : {}),
    otherOwners: random.list(1, () => asOwner(claim())),
    labels: new Map([['app', random.pick(['one', 'two'])]]),
    selector: random.chance(0.3) ? { labels: [['app', 'one']], expressions: [] } : undefined,
    node: random.chance(0.3) ? random.pick(cast).name : '',
    references: makeReferences(random, kind, cast),
    facts: random.chance(0.05) ? ['x'.repeat(40_000)] : [`${random.int(3)}/3 ready`],
    environment: random.chance(0.3) ? random.pick(['1/prod', '2/prod']) : '',
    application: random.chance(0.3) ? random.pick(['one', 'two']) : '',
    claim: random.chance(0.3) ? makeClaim(random, cast) : undefined,
  })
}

function makePut(random: Seeded, actor: Actor, cast: readonly Actor[]): Step {
  const record = makeRecord(random, actor, cast)
  if (random.chance(0.5)) return { do: 'put', record }
  const kept = makeKept(random, record, cast)
  return { do: 'put', record, judgement: makeJudgement(random, record), ...(kept ? { kept } : {}) }
}

/** Fields of the object that name its explanations. */
function makeKept(random: Seeded, { kind }: ObjectRecord, cast: readonly Actor[]): KubernetesObject | undefined {
  const nameOf = (wanted: ResourceKind) => random.pick([...cast, ...base].filter((one) => one.kind === wanted)).name
  if (kind === kinds.service) return { spec: { selector: { app: random.pick(['one', 'two']) } } }
  if (kind !== kinds.pod) return undefined
  const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: nameOf(kinds.claim) } }]
  return { spec: { nodeName: nameOf(kinds.node), volumes } }
}

const reasons = [
  'NodeNotReady',
  'Unschedulable',
  'NoReadyEndpoints',
  'CrashLoopBackOff',
  'ContainerCreating',
  'NotBound',
]

/** A judgement of up to two findings with needs, and one without. */
function makeJudgement(random: Seeded, { namespace }: ObjectRecord): Judgement {
  const choices = random.list(2, (): Judgement[number] => makeChoice(random, [makeNeed(random, namespace)]))
  const word = random.pick(['Healthy', 'Progressing', 'Degraded'] as const)
  const bare = { word, finding: undefined, by: random.pick(['rules', 'users', 'nobody'] as const), needs: [] }
  return [...choices, random.chance(0.5) ? bare : makeChoice(random, [])]
}

function makeChoice(random: Seeded, needs: readonly Need[]): Judgement[number] {
  const word = random.pick(['Progressing', 'Degraded', 'Degraded', 'Suspended'] as const)
  const since = random.chance(0.5) ? 1000 * random.int(9) : undefined
  const base = {
    reason: random.pick(reasons),
    text: `text ${random.int(3)}`,
    rank: random.pick([0, 1, 2, 3, 4] as const),
  }
  return { word, finding: { ...finding(word, { ...base, since, needs }), seen: 5 }, by: 'rules', needs }
}

function makeNeed(random: Seeded, namespace: string): Need {
  const near = namespace || random.pick(namespaces)
  const kind = random.pick(allKinds)
  return random.chance(0.5) ? ['Event', near] : [kind.key, kind.isNamespaced ? near : '']
}

function makeReferences(random: Seeded, kind: ResourceKind, cast: readonly Actor[]) {
  const deploys = kind.key === deployer.key
  return random.list(deploys ? 5 : 2, () => {
    const one = random.pick(cast)
    if (deploys && random.chance(0.1)) {
      return { relation: 'deploys into', kind: 'Namespace', namespace: '', name: random.pick(namespaces) }
    }
    return { relation: deploys ? 'deploys' : 'routes', kind: one.kind.key, namespace: one.namespace, name: one.name }
  })
}

/** Claim of an application's object, which may not exist. */
function makeClaim(random: Seeded, cast: readonly Actor[]): ObjectRecord['claim'] {
  const application = random.pick(['one', 'three'])
  const one = random.chance(0.8) ? cast.find(({ kind }) => kind.key === deployer.key) : undefined
  return { application, kind: deployer.key, namespace: one?.namespace ?? 'a', name: one?.name ?? 'none' }
}

function eventOf(u: string, ns: string, { kind, name, uid }: Actor, count: number, at: number): EventRow {
  return { u, ns, about: [kind.key, name, uid], type: 'Warning', reason: 'Failed', text: 'x', count, at }
}

function makeStep(random: Seeded, cast: readonly Actor[], views: number): Step {
  const one = random.chance(0.15) ? random.pick(rings) : random.pick(cast)
  const events = () => `e${random.int(10)}`
  const eventNamespace = (uid: string) => namespaces[Number(uid.slice(1)) % 3] as string
  switch (random.int(15)) {
    case 12:
      return { do: 'echo', uid: one.uid }
    case 0:
    case 1:
      return { do: 'delete', uid: one.uid }
    case 2: {
      const u = events()
      return { do: 'event', event: eventOf(u, eventNamespace(u), one, random.int(5), random.int(9)) }
    }
    case 3:
      return { do: 'forget event', uid: events() }
    case 4:
    case 5: {
      const owner = `o:${random.pick(namespaces)}:gone-${random.int(5)}`
      const nodes = [one.uid, 'g:application/one', 'g:environment/1/prod', owner, 'b::Pod', `b:${one.uid}:Pod`, '']
      return { do: 'page', view: random.int(views), node: random.pick(nodes), limit: random.pick([0, 2, 50]) }
    }
    case 13:
    case 14:
      return { do: 'state', kind: random.pick([...allKinds, eventKind]), state: makeState(random) }
    default:
      return makePut(random, one, cast)
  }
}

function makeState(random: Seeded): FollowState {
  return {
    is: random.pick(['live', 'live', 'syncing', 'stale', 'refused']),
    since: 1 + random.int(100),
    why: random.pick(['', 'slow', 'away']),
    refusedNamespaces: namespaces.filter(() => random.chance(0.3)),
    leftOut: random.list(2, () => ({ namespace: random.pick(namespaces), name: `x${random.int(20)}` })),
  }
}

/** @param hidden - true if the objects that the viewer may not list exist, too */
export async function runWorld(world: World, hidden: boolean): Promise<Outcome> {
  const stage = new ViewStage()
  stage.options = { verdict: world.verdict }
  stage.api.rights.set('ann', world.phases[0] as readonly Right[])
  for (const kind of allKinds) stage.states.set(kind, {})
  stage.events.states.set(eventKind, {})
  const opened = world.queries.map((query) => stage.open(user('ann'), query))
  const pages = world.queries.map(({ limit = 100 }) => new Map([['', limit]]))
  for (const one of opened) one.client.onTaken = undefined
  const take = () => {
    for (const { client, view } of opened) view.taken(client.updates.at(-1)?.seq ?? 0)
  }
  const placeOf = new Map<string, string>()
  for (const { step } of world.steps) if (step.do === 'put') placeOf.set(step.record.uid, placeKey(step.record))
  let phase = 0
  const isShown = (resource: string, namespace: string) => {
    const [group = '', plural = ''] = resource.split('/')
    return world.phases.slice(phase).some((rights) => allows(rights, { group, resource: plural, namespace }))
  }
  for (const { step, waitMs, takes } of world.steps) {
    if (step.do === 'rights') {
      phase = step.phase
      stage.api.rights.set('ann', world.phases[phase] as readonly Right[])
    } else if (step.do === 'page') {
      opened[step.view]?.view.page(step.node, step.limit)
      if (step.limit > 0) pages[step.view]?.set(step.node, step.limit)
      else pages[step.view]?.delete(step.node)
    } else if (step.do === 'echo') {
      const record = stage.records.get(step.uid)
      if (hidden && record)
        stage.records.put({ ...record }, stage.records.judged(step.uid), stage.records.keptOf(step.uid))
    } else if (step.do === 'state') {
      const { kind, state } = step
      const isIn = (namespace: string) => hidden || isShown(`${kind.group}/${kind.plural}`, namespace)
      const refusedNamespaces = state.refusedNamespaces.filter(isIn)
      const leftOut = state.leftOut.filter(({ namespace }) => isIn(namespace))
      const states = kind === eventKind ? stage.events.states : stage.states
      if (['', ...namespaces].some(isIn)) states.set(kind, { ...state, refusedNamespaces, leftOut })
    } else if (step.do === 'event') {
      if (hidden || isShown('/events', step.event.ns)) stage.events.put(step.event)
    } else if (step.do === 'forget event') {
      const ns = namespaces[Number(step.uid.slice(1)) % 3] as string
      if (hidden || isShown('/events', ns)) stage.events.delete(step.uid)
    } else {
      const uid = step.do === 'put' ? step.record.uid : step.uid
      const [resource = '', namespace = ''] = (placeOf.get(uid) ?? '').split(' ')
      if (hidden || isShown(resource, namespace)) {
        if (step.do === 'put') stage.records.put(step.record, step.judgement, step.kept)
        else stage.records.delete(uid)
      }
    }
    await stage.pass(waitMs)
    if (takes) take()
  }
  const count = () => opened.reduce((sum, { client }) => sum + client.updates.length, 0)
  for (let quiet = 0, before = -1; quiet < 4; quiet = count() > before ? 0 : quiet + 1) {
    before = count()
    take()
    await stage.pass(100)
  }
  const fresh = world.queries.map((query) => stage.open(user('ann'), query).client)
  for (let i = 0; i < 8; i++) await stage.pass(100)
  stage.close()
  const rights = world.phases.at(-1) as readonly Right[]
  const records = [...stage.records.all()].filter(({ kind: { group, plural }, namespace }) =>
    allows(rights, { group, resource: plural, namespace }),
  )
  const judged = new Map(records.map(({ uid }) => [uid, stage.records.judged(uid)]))
  const holds = ([key, namespace]: Need) => {
    const kind = key === eventKind.key ? eventKind : allKinds.find((one) => one.key === key)
    return kind !== undefined && allows(rights, { group: kind.group, resource: kind.plural, namespace })
  }
  return { clients: opened.map(({ client }) => client), fresh, records, pages, judged, holds }
}

const placeKey = ({ kind, namespace }: ObjectRecord) => `${kind.group}/${kind.plural} ${namespace}`
