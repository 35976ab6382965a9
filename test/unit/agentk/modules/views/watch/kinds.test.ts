import t, { type Test } from 'tap'
import type { ObjectSink } from '../../../../../../src/agentk/modules/views/store/record.ts'
import { Kinds, type KindsOptions } from '../../../../../../src/agentk/modules/views/watch/kinds.ts'
import { textAt } from '../../../../../../src/kubernetes/object.ts'
import { capturedLog } from '../../../../../support/captured-log.ts'
import { KeptSink } from '../../../../../support/kept-sink.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'
import { ScriptedApi, type Watch } from '../../../cluster/scripted-api.ts'
import { aggregated, resource, type Version } from './discovered.ts'

const apiServices = '/apis/apiregistration.k8s.io/v1/apiservices'
const customKinds = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const listEnd = {
  type: 'BOOKMARK' as const,
  object: { metadata: { resourceVersion: '10', annotations: { 'k8s.io/initial-events-end': 'true' } } },
}

const apiService = (group: string, service?: object) => ({
  type: 'ADDED' as const,
  object: {
    metadata: { name: `v1.${group}`, uid: `s-${group}` },
    spec: { group, version: 'v1', service: service ?? null },
  },
})
const customKind = (name: string, version: number) => ({
  type: 'ADDED' as const,
  object: { metadata: { name, uid: `c-${name}`, resourceVersion: String(version) } },
})
const object = (name: string, uid: string) => ({
  type: 'ADDED' as const,
  object: { metadata: { name, uid, namespace: 'shop' } },
})

const v1 = (...resources: ReturnType<typeof resource>[]): readonly Version[] => [{ version: 'v1', resources }]
const core = { '': v1(resource('pods', 'Pod', { subresources: ['status'] }), resource('configmaps', 'ConfigMap')) }
const apps = { apps: v1(resource('deployments', 'Deployment', { subresources: ['status'] })) }
const widgets = { 'example.com': v1(resource('widgets', 'Widget')) }
const own = ['', 'apps', 'example.com', 'extensions', 'networking.k8s.io'].map((group) => apiService(group))

/** An API server that answers `/version` itself. The test gives all other answers. */
class AwakeApi extends ScriptedApi {
  override json(...asked: Parameters<ScriptedApi['json']>): ReturnType<ScriptedApi['json']> {
    return asked[1] === '/version' ? Promise.resolve({ status: 200, body: {} }) : super.json(...asked)
  }
}

function start(t: Test, options: Partial<KindsOptions> = {}, evidence?: ObjectSink) {
  const api = new AwakeApi()
  const clock = new ManualClock()
  const sink = new KeptSink()
  const events = new KeptSink()
  const { log, lines } = capturedLog()
  const sinks = { sink, events, ...(evidence ? { evidence } : {}) }
  const kinds = new Kinds({ api, ...sinks, log, clock, random: () => 0.5 }, { follow: {}, ...options })
  const stopping = new AbortController()
  const running = kinds.run(stopping.signal)
  const stop = async () => {
    stopping.abort()
    await running
  }
  t.teardown(stop)
  const list = async (path: string, ...found: { type: 'ADDED'; object: object }[]): Promise<Watch> => {
    const watch = await api.watch(path)
    await watch.open()
    await watch.tell(...found, listEnd)
    return watch
  }
  /** Answers the next discovery with these groups. */
  const say = async (groups: Readonly<Record<string, readonly Version[]>>) => {
    const { '': ofCore = [], ...others } = groups
    await (await api.ask('/api')).answer(200, aggregated({ '': ofCore }))
    await (await api.ask('/apis')).answer(200, aggregated(others))
  }
  return { api, clock, sink, events, lines, list, say, stop }
}

/** Starts with known APIServices and custom kinds; discovery has answered with these groups. */
async function startKnown(
  t: Test,
  groups: Readonly<Record<string, readonly Version[]>>,
  options?: Partial<KindsOptions>,
) {
  const side = start(t, options)
  await side.list('/api/v1/events')
  const services = await side.list(apiServices, ...own)
  const custom = await side.list(customKinds)
  await side.say(groups)
  for (const ms of [300, 1000]) {
    await side.clock.pass(ms) // the custom kinds are now listed, which is a change
    await side.say(groups)
  }
  return { ...side, services, custom }
}

t.test('kinds are found, and followed', async (t) => {
  const { api, sink, events, list, lines } = await startKnown(t, { ...core, ...apps })
  t.strictSame([...sink.states.keys()], ['Pod', 'ConfigMap', 'apps/Deployment'])
  await list('/api/v1/pods', object('a', 'u-a'))
  t.match((await api.watch('/api/v1/configmaps')).accept, /as=PartialObjectMetadata/)
  await list('/apis/apps/v1/deployments', object('d', 'u-d'))
  t.strictSame(sink.names('Pod'), ['shop/a'])
  t.strictSame(sink.names('apps/Deployment'), ['shop/d'])
  t.equal(sink.is('Pod'), 'live')
  t.equal(sink.is('ConfigMap'), 'syncing')
  t.equal(events.is('Event'), 'live')
  t.strictSame(lines, [])
})

t.test('nothing is asked before it is known who serves what', async (t) => {
  const { api, clock, list, say, sink, lines } = start(t)
  await list(customKinds)
  t.strictSame((await api.waiting()).sort(), ['/api/v1/events', apiServices].sort())
  const services = await api.watch(apiServices)
  await services.open(500)
  await services.end()
  await clock.pass(10_000)
  t.notOk((await api.waiting()).includes('/api'))
  t.match(lines, [{ level: 'warn', reason: 'apiregistration.k8s.io/APIService: the API server answered 500' }])
  await (await api.ask(apiServices)).answer(200, {
    metadata: { resourceVersion: '5' },
    items: own.map((each) => each.object),
  })
  await say(core)
  t.strictSame([...sink.states.keys()], ['Pod', 'ConfigMap'])
})

t.test('warnings are asked for by a selector', async (t) => {
  const { api } = start(t)
  t.equal((await api.watch('/api/v1/events')).query.get('fieldSelector'), 'type=Warning')
})

t.test('four lists at once', async (t) => {
  const names = ['pods', 'nodes', 'services', 'limitranges', 'podtemplates', 'namespaces']
  const groups = { '': v1(...names.map((name) => resource(name, name))) }
  const { api, list } = await startKnown(t, groups)
  t.strictSame(
    await api.waiting(),
    names.slice(0, 4).map((name) => `/api/v1/${name}`),
  )
  await list('/api/v1/services')
  t.strictSame(
    await api.waiting(),
    ['pods', 'nodes', 'limitranges', 'podtemplates'].map((name) => `/api/v1/${name}`),
  )
  const denied = await api.watch('/api/v1/pods')
  await denied.open(403)
  await denied.end()
  const left = ['nodes', 'limitranges', 'podtemplates', 'namespaces'].map((name) => `/api/v1/${name}`)
  t.strictSame(await api.waiting(), left)
})

t.test('what another server answers for is not followed, now or later', async (t) => {
  const { sink, clock, services, say } = await startKnown(t, {
    ...core,
    ...widgets,
    'other.io': v1(resource('x', 'X')),
  })
  t.notOk(sink.states.has('other.io/X'), 'nobody has registered it')
  t.ok(sink.states.has('example.com/Widget'))
  await services.tell(apiService('other.io', { name: 'other', namespace: 'kube-system' }))
  await services.tell({ ...apiService('example.com', { name: 'other' }), type: 'MODIFIED' as const })
  await clock.pass(300)
  await say({ ...core, ...widgets, 'other.io': v1(resource('x', 'X')) })
  t.notOk(sink.states.has('other.io/X'))
  t.notOk(sink.states.has('example.com/Widget'))
  t.ok(sink.told.includes('dropped example.com/Widget'))
})

/** An APIService of a group that another server serves, with its condition `Available`. */
const served = (group: string, status: 'True' | 'False', at: number, name = `v1.${group}`) => ({
  type: 'MODIFIED' as const,
  object: {
    metadata: { name, uid: `s-${name}` },
    spec: { group, version: 'v1', service: { name: 'other', namespace: 'default' } },
    status: {
      conditions: [
        {
          type: 'Available',
          status,
          reason: status === 'True' ? 'Passed' : 'FailedDiscoveryCheck',
          lastTransitionTime: new Date(at).toISOString(),
        },
      ],
    },
  },
})

t.test('an API that another server fails to answer for is named after 50 s, until it answers again', async (t) => {
  const groups = { ...core, 'other.io': v1(resource('x', 'X')), 'new.io': [{ version: 'v1', resources: [] }] }
  const options = { follow: { exclude: ['left.io/*'] } }
  const { api, sink, clock, services, say } = await startKnown(t, groups, options)
  clock.advance(1000 - (clock.now() % 1000)) // conditions have whole seconds
  const at = clock.now()
  for (const group of ['other.io', 'new.io', 'left.io', 'half.io']) await services.tell(served(group, 'False', at))
  await services.tell(served('half.io', 'True', at, 'v2.half.io'))
  let now: Parameters<typeof say>[0] = groups
  /** Passes 3 s and answers each discovery meanwhile. */
  const after = async () => {
    for (let i = 0; i < 10; i++) {
      await clock.pass(300)
      if ((await api.waiting()).includes('/api')) await say(now)
    }
  }
  await after()
  now = { ...groups, 'other.io': [{ version: 'v1', freshness: 'Stale', resources: [] }] }
  const named = () => [...sink.states].filter(([, { is }]) => is === 'aside').map(([kind]) => kind)
  t.strictSame(named(), [], 'it may be a restart')
  await clock.pass(at + 50_000 - clock.now())
  await after()
  t.strictSame(named(), ['other.io/X', 'new.io/*'], 'kinds that are known, else the group')
  const why = 'its API is not available: FailedDiscoveryCheck'
  t.match(sink.states.get('other.io/X'), { since: at, why })
  t.match(sink.states.get('new.io/*'), { since: at, why })
  const told = sink.told.length
  await services.tell(served('half.io', 'False', clock.now() - 1000, 'v2.half.io'))
  await after()
  t.strictSame(sink.told.slice(told), [], 'what is named already is not told again')
  now = groups
  for (const group of ['other.io', 'new.io']) await services.tell(served(group, 'True', clock.now()))
  await after()
  t.strictSame(named(), [])
  t.notOk(sink.states.has('other.io/X'), 'it is as before: not followed')
})

t.test('who may not list APIServices follows custom kinds and what is of Kubernetes, and says so once', async (t) => {
  const { api, clock, sink, list, say, lines } = start(t)
  const services = await api.watch(apiServices)
  await services.open(403)
  await services.end()
  const all = { ...core, ...widgets, 'other.io': v1(resource('x', 'X')) }
  await say(all)
  t.strictSame([...sink.states.keys()], ['Pod', 'ConfigMap'])
  await list(customKinds, customKind('widgets.example.com', 5))
  await clock.pass(300)
  await say(all)
  t.strictSame([...sink.states.keys()], ['Pod', 'ConfigMap', 'example.com/Widget'])
  t.match(lines, [{ level: 'warn', msg: /^agentk may not list APIServices/ }])
})

t.test('a custom kind comes and goes within 2 s', async (t) => {
  const { clock, sink, custom, say, list } = await startKnown(t, core)
  const beganAt = clock.now()
  await custom.tell(customKind('widgets.example.com', 11))
  await clock.pass(200)
  await custom.tell(customKind('widgets.example.com', 12))
  await clock.pass(100)
  await say(core) // discovery does not know the kind yet
  await clock.pass(300)
  await say(core)
  await clock.pass(1000)
  await say({ ...core, ...widgets })
  t.ok(clock.now() - beganAt < 2000)
  await list('/apis/example.com/v1/widgets', object('w', 'u-w'))
  t.strictSame(sink.names('example.com/Widget'), ['shop/w'])
  await custom.tell({ ...customKind('widgets.example.com', 13), type: 'DELETED' as const })
  await clock.pass(300)
  await say(core)
  t.strictSame(sink.names('example.com/Widget'), [])
  t.notOk(sink.states.has('example.com/Widget'))
})

t.test('a group that discovery calls stale keeps its kinds', async (t) => {
  const { clock, sink, custom, say } = await startKnown(t, { ...core, ...widgets })
  const look = async (groups: Readonly<Record<string, readonly Version[]>>) => {
    await custom.tell(customKind(`x${clock.now()}.example.com`, clock.now()))
    await clock.pass(300)
    await say(groups)
    await clock.pass(1000)
    await say(groups)
  }
  await look({ ...core, 'example.com': [{ version: 'v1', freshness: 'Stale', resources: [] }] })
  t.ok(sink.states.has('example.com/Widget'))
  t.notOk(sink.told.includes('dropped example.com/Widget'))
  await look({ ...core, 'example.com': v1() })
  t.notOk(sink.states.has('example.com/Widget'))
})

t.test('another version of a kind takes its place', async (t) => {
  const { clock, sink, say, list } = await startKnown(t, widgets)
  await list('/apis/example.com/v1/widgets', object('w', 'u-w'))
  await clock.pass(300_000)
  await say({ 'example.com': [{ version: 'v2', resources: [resource('widgets', 'Widget')] }] })
  t.strictSame(sink.names('example.com/Widget'), [])
  await list('/apis/example.com/v2/widgets', object('w', 'u-w'))
  t.strictSame(sink.names('example.com/Widget'), ['shop/w'])
})

t.test('objects that two groups serve belong to the first; when that goes, to the other', async (t) => {
  const ingresses = v1(resource('ingresses', 'Ingress', { subresources: ['status'] }))
  const both = { 'networking.k8s.io': ingresses, extensions: ingresses }
  const { clock, sink, say, list } = await startKnown(t, both)
  await list('/apis/extensions/v1/ingresses', object('web', 'u-web'))
  t.strictSame(sink.names('extensions/Ingress'), ['shop/web'])
  await list('/apis/networking.k8s.io/v1/ingresses', object('web', 'u-web'))
  t.strictSame(sink.names('extensions/Ingress'), [])
  t.strictSame(sink.names('networking.k8s.io/Ingress'), ['shop/web'])
  await clock.pass(300_000)
  await say({ extensions: ingresses })
  await list('/apis/extensions/v1/ingresses', object('web', 'u-web'))
  t.strictSame(sink.names('extensions/Ingress'), ['shop/web'])
})

t.test('more kinds than may be followed are named', async (t) => {
  const { clock, sink, say, lines } = await startKnown(t, { ...core, ...apps, ...widgets }, { maxKinds: 2 })
  t.strictSame(
    [...sink.states].map(([key, { is, why }]) => [key, is, why]),
    [
      ['apps/Deployment', 'refused', 'more than 2 kinds'],
      ['example.com/Widget', 'refused', 'more than 2 kinds'],
      ['Pod', 'syncing', ''],
      ['ConfigMap', 'syncing', ''],
    ],
  )
  t.match(lines, [{ level: 'warn', count: 2, maxKinds: 2, msg: 'Too many kinds, some are not followed' }])
  await clock.pass(300_000)
  await say({ ...apps, ...widgets })
  t.strictSame([...sink.states].map(([key, { is }]) => [key, is]).sort(), [
    ['apps/Deployment', 'syncing'],
    ['example.com/Widget', 'syncing'],
  ])
})

t.test('discovery that fails is told once and tried again; what is followed stays', async (t) => {
  const { api, clock, sink, say, lines } = await startKnown(t, core)
  await clock.pass(300_000)
  await (await api.ask('/api')).answer(503)
  await clock.pass(250)
  await (await api.ask('/api')).fail(new Error('cut'))
  await clock.pass(500)
  await say({ ...core, ...apps })
  t.strictSame([...sink.states.keys()], ['Pod', 'ConfigMap', 'apps/Deployment'])
  t.match(lines, [{ level: 'warn', msg: 'Cannot ask the API server which kinds it serves' }])
  t.equal(lines.length, 1)
})

t.test('what is not wanted, and namespaces where the whole is refused', async (t) => {
  const follow = { namespaces: ['shop'], exclude: ['ConfigMap'] }
  const { api, sink } = await startKnown(t, core, { follow })
  t.strictSame([...sink.states.keys()], ['Pod'])
  const whole = await api.watch('/api/v1/pods')
  await whole.open(403)
  await whole.end()
  t.ok(await api.watch('/api/v1/namespaces/shop/pods'))
})

t.test('all of it ends, in the midst of lists and of discovery', async (t) => {
  const { api, clock, list, stop } = await startKnown(t, { ...core, ...apps })
  await list('/api/v1/pods')
  const waiting = await api.watch('/apis/apps/v1/deployments')
  await clock.pass(300_000)
  await api.ask('/api')
  await stop()
  t.ok(waiting.isAborted)
  t.strictSame(clock.waits, [])
})

t.test('the group of APIServices is the server’s own, though no APIService says so', async (t) => {
  const group = v1(resource('apiservices', 'APIService', { subresources: ['status'] }))
  const { sink } = await startKnown(t, { ...core, 'apiregistration.k8s.io': group, 'metrics.k8s.io': core[''] })
  t.strictSame([...sink.states.keys()], ['Pod', 'ConfigMap', 'apiregistration.k8s.io/APIService'])
})

t.test(
  'events that say why an object is not well are told to who asks for them, Normal ones to nobody else',
  async (t) => {
    const told: string[] = []
    const nothing = () => undefined
    const evidence: ObjectSink = {
      listing: nothing,
      deleted: nothing,
      listed: nothing,
      dropped: nothing,
      state: nothing,
      put: (_, event) => told.push(textAt(event, 'metadata.name')),
    }
    const { list, events } = start(t, {}, evidence)
    await list('/api/v1/events', object('warned', 'u-w'))
    await list('/api/v1/events', object('killed', 'u-k'))
    await list('/api/v1/events', object('bound', 'u-b'))
    t.strictSame(told, ['warned', 'killed', 'bound'])
    t.strictSame(events.names('Event'), ['shop/warned'])
  },
)
