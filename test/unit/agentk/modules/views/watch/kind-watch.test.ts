import t, { type Test } from 'tap'
import { watchTimes } from '../../../../../../src/agentk/cluster/object-watch.ts'
import { maxEventBytes } from '../../../../../../src/agentk/cluster/watch-request.ts'
import { LiveWatches } from '../../../../../../src/agentk/modules/views/watch/failing-time.ts'
import { KindWatch } from '../../../../../../src/agentk/modules/views/watch/kind-watch.ts'
import type { GroupOrder } from '../../../../../../src/agentk/modules/views/watch/part-watch.ts'
import type { Refusals } from '../../../../../../src/agentk/modules/views/watch/refusals.ts'
import { Counter } from '../../../../../../src/lib/counter.ts'
import { KasError } from '../../../../../../src/lib/errors.ts'
import { pause } from '../../../../../../src/lib/pause.ts'
import { KeptSink } from '../../../../../support/kept-sink.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'
import { ScriptedApi } from '../../../cluster/scripted-api.ts'

const pods = { key: 'Pod', group: '', version: 'v1', plural: 'pods', isNamespaced: true }
const roles = { key: 'rbac.authorization.k8s.io/ClusterRole', group: 'rbac.authorization.k8s.io', version: 'v1' }
const clusterRoles = { ...roles, plural: 'clusterroles', isNamespaced: false }
const all = '/api/v1/pods'
const inShop = '/api/v1/namespaces/shop/pods'
const inTest = '/api/v1/namespaces/test/pods'

const pod = (place: string, version = 1) => {
  const [namespace, name] = place.split('/')
  return { metadata: { namespace, name, uid: `u-${place}`, resourceVersion: String(version) }, spec: {} }
}
const page = (...places: string[]) => ({
  metadata: { resourceVersion: '10' },
  items: places.map((place) => pod(place)),
})
const event = (type: 'MODIFIED' | 'DELETED' | 'ADDED', place: string) => ({ type, object: pod(place, 11) })

interface Options {
  readonly namespaces?: readonly string[]
  readonly kind?: typeof pods
  readonly isMetadata?: boolean
  readonly maxWatches?: number
  readonly sink?: KeptSink
  readonly groups?: GroupOrder
}

function start(t: Test, options: Options = {}) {
  const { namespaces = [], kind = pods, isMetadata = false, maxWatches = 10, sink = new KeptSink(), ...more } = options
  const api = new ScriptedApi()
  const clock = new ManualClock()
  const open = new Counter<string>({ max: maxWatches })
  const troubles: unknown[] = []
  const onTrouble = (_: string, error: unknown) => void troubles.push(error)
  const refused: string[] = []
  const refusals: Pick<Refusals, 'wait'> = {
    wait: ({ kind: { plural }, namespace = '' }, mostMs, signal) => {
      refused.push(`${namespace}/${plural}`)
      return pause(mostMs, clock, signal)
    },
  }
  const silenced = new Set<() => void>()
  const liveness = {
    onUnanswered: (listener: () => void) => {
      silenced.add(listener)
      return () => void silenced.delete(listener)
    },
  }
  const live = new LiveWatches(clock)
  const components = { api, sink, clock, random: () => 0.5, open, refusals, liveness, live, onTrouble, ...more }
  const watch = new KindWatch(components, { kind, isMetadata, namespaces, times: watchTimes })
  const stopping = new AbortController()
  const running = watch.run(stopping.signal)
  const stop = async () => {
    stopping.abort()
    await running
  }
  t.teardown(stop)
  const began = clock.now()
  const state = () => sink.states.get(kind.key)
  return { api, clock, sink, open, stop, state, began, troubles, refused, silenced, live }
}

/** Starts a watch that has listed and is live. */
async function startLive(t: Test, options?: Options) {
  const side = start(t, options)
  await (await side.api.ask(all)).answer(200, page('shop/a', 'test/b'))
  const watch = await side.api.watch(all)
  await watch.open()
  return { ...side, watch }
}

t.test('a kind that is followed in the whole cluster', async (t) => {
  const { api, clock, sink, state, began, stop } = start(t)
  const more = { refusedNamespaces: [], leftOut: [] }
  t.same(state(), { is: 'syncing', since: began, why: '', ...more })
  await clock.pass(50)
  await (await api.ask()).answer(200, page('shop/a', 'test/b'))
  t.equal(state()?.is, 'syncing', 'not before it is watched')
  const watch = await api.watch()
  await watch.open()
  t.same(state(), { is: 'live', since: began + 50, why: '', ...more })
  await watch.tell(event('DELETED', 'shop/a'), event('ADDED', 'shop/c'))
  t.strictSame(sink.names('Pod'), ['shop/c', 'test/b'])
  await clock.pass(300_000)
  await watch.end()
  await clock.pass(999)
  await (await api.watch()).open()
  await clock.pass(10_000)
  t.same(state()?.since, began + 50, 'one watch that follows another is no change')
  t.equal(sink.told.filter((each) => each === 'live Pod').length, 1)
  await stop()
  t.strictSame(clock.waits, [])
  t.strictSame(sink.names('Pod'), ['shop/c', 'test/b'], 'another pod may lead on')
})

t.test('the API server is away: stale since its watch ended', async (t) => {
  const { api, clock, watch, state, sink } = await startLive(t)
  await clock.pass(5000)
  await watch.cut()
  const cutAt = clock.now()
  t.equal(state()?.is, 'live')
  await clock.pass(1000)
  t.match(state(), { is: 'stale', since: cutAt, why: 'the API server does not answer' })
  const again = await api.watch(all)
  await again.open(503)
  await again.end()
  t.match(state(), { is: 'stale', since: cutAt, why: 'the API server answered 503' })
  await clock.pass(2000)
  const next = await api.watch(all)
  t.equal(next.query.get('resourceVersion'), '10')
  await next.open()
  t.match(state(), { is: 'live', since: clock.now(), why: '' })
  t.strictSame(sink.names('Pod'), ['shop/a', 'test/b'], 'its rows have stayed')
})

t.test('the API server is frozen: its watch is cut, and goes on from there once it answers', async (t) => {
  const { clock, watch, state, api, silenced } = await startLive(t)
  await clock.pass(60_000)
  const cutAt = clock.now()
  for (const silent of silenced) silent()
  await clock.pass(1000)
  t.ok(watch.isAborted)
  t.match(state(), { is: 'stale', since: cutAt, why: 'the API server does not answer' })
  const frozen = await api.watch(all)
  for (const silent of silenced) silent()
  await clock.pass(2000)
  t.ok(frozen.isAborted)
  t.match(state(), { is: 'stale', since: cutAt })
  const next = await api.watch(all)
  t.equal(next.query.get('resourceVersion'), '10')
  await next.open()
  t.match(state(), { is: 'live' })
  await next.end()
  await clock.pass(1000)
  t.equal(silenced.size, 1, 'those that were cut want to know nothing any more')
})

t.test('away from the beginning: it is syncing, and says why', async (t) => {
  const { api, clock, state, began } = start(t)
  await (await api.ask()).fail(new Error('connect ECONNREFUSED 10.0.0.1'))
  t.match(state(), { is: 'syncing', since: began, why: 'the API server does not answer' })
  await clock.pass(1000)
  await (await api.ask()).answer(500)
  t.match(state(), { is: 'syncing', since: began, why: 'the API server answered 500' })
  await clock.pass(2000)
  await (await api.ask()).answer(200, page('shop/a'))
  await (await api.watch()).open()
  t.match(state(), { is: 'live', why: '' })
})

t.test('410: all is listed again, what is gone is gone', async (t) => {
  const { api, clock, watch, state, sink } = await startLive(t)
  await watch.tell({ type: 'ERROR' as const, object: { code: 410 } })
  await clock.pass(1000)
  t.match(state(), { is: 'stale', why: 'its watch has ended' })
  await (await api.ask(all)).answer(200, page('test/b', 'test/c'))
  t.strictSame(sink.names('Pod'), ['test/b', 'test/c'])
  await (await api.watch(all)).open()
  t.match(state(), { is: 'live' })
})

for (const [status, why] of [
  [403, 'agentk may not list and watch it'],
  [404, 'it is not served'],
  [405, 'it cannot be listed'],
] as const) {
  t.test(`${status}: it is named, its rows go, it is tried again after 5 minutes`, async (t) => {
    const { api, clock, watch, state, sink } = await startLive(t)
    await watch.end()
    await clock.pass(1000)
    const next = await api.watch()
    await next.open(status)
    await next.end()
    const since = clock.now()
    t.match(state(), { is: 'refused', since, why })
    t.strictSame(sink.names('Pod'), [])
    await clock.pass(300_000)
    await (await api.ask()).answer(status)
    t.match(state(), { is: 'refused', since })
    t.equal(sink.told.filter((each) => each === 'dropped Pod').length, 1)
    await clock.pass(300_000)
    await (await api.ask()).answer(200, page('shop/a'))
    t.match(state(), { is: 'syncing', why: '' })
    await (await api.watch()).open()
    t.match(state(), { is: 'live' })
    t.strictSame(sink.names('Pod'), ['shop/a'])
  })
}

t.test('403 in the whole cluster: namespace by namespace, until the whole is allowed', async (t) => {
  const { api, clock, state, sink, open, refused } = start(t, { namespaces: ['shop', 'test'], maxWatches: 3 })
  await (await api.ask(all)).answer(403)
  t.match(state(), { is: 'syncing' })
  await (await api.ask(inShop)).answer(200, page('shop/a', 'shop/old'))
  const shop = await api.watch(inShop)
  await shop.open()
  await (await api.ask(inTest)).answer(403)
  t.strictSame(refused, ['/pods', 'test/pods'])
  t.match(state(), { is: 'live', why: '', refusedNamespaces: ['test'] })
  t.strictSame(sink.names('Pod'), ['shop/a', 'shop/old'])
  t.equal(open.enter('other'), undefined, 'each is one watch')
  await shop.cut()
  await clock.pass(1000)
  t.match(state(), { is: 'stale', refusedNamespaces: ['test'] })
  await (await api.watch(inShop)).open()
  t.match(state(), { is: 'live' })
  await clock.pass(299_000)
  await (await api.ask(all)).answer(403)
  t.match(state(), { is: 'live', refusedNamespaces: ['test'] })
  await (await api.ask(inTest)).answer(200, page('test/b'))
  await (await api.watch(inTest)).open()
  t.match(state(), { is: 'live', refusedNamespaces: [] })
  t.strictSame(sink.names('Pod'), ['shop/a', 'shop/old', 'test/b'])
  await clock.pass(300_000)
  await (await api.ask(all)).answer(200, page('shop/a', 'test/b', 'elsewhere/c'))
  t.strictSame(sink.names('Pod'), ['elsewhere/c', 'shop/a', 'test/b'], 'one list for all of it')
  await (await api.watch(all)).open()
  t.match(state(), { is: 'live', refusedNamespaces: [] })
  t.ok(open.enter('other'), 'those of the namespaces have ended')
  t.ok(open.enter('other'))
})

t.test('rights that are taken away in one namespace', async (t) => {
  const { api, clock, state, sink } = start(t, { namespaces: ['shop', 'test'] })
  await (await api.ask(all)).answer(403)
  for (const [path, place] of [
    [inShop, 'shop/a'],
    [inTest, 'test/b'],
  ] as const) {
    await (await api.ask(path)).answer(200, page(place))
    const watch = await api.watch(path)
    await watch.open()
    if (path === inShop) await watch.end()
  }
  await clock.pass(1000)
  const next = await api.watch(inShop)
  await next.open(403)
  await next.end()
  t.strictSame(sink.names('Pod'), ['test/b'])
  t.match(state(), { is: 'live', refusedNamespaces: ['shop'] })
})

t.test('no namespace may be listed: refused, each of them named', async (t) => {
  const { api, state } = start(t, { namespaces: ['shop', 'test'] })
  await (await api.ask(all)).answer(403)
  await (await api.ask(inShop)).answer(403)
  await (await api.ask(inTest)).answer(403)
  t.match(state(), { is: 'refused', why: 'agentk may not list and watch it', refusedNamespaces: ['shop', 'test'] })
})

t.test('a kind of no namespace has no part of it', async (t) => {
  const { api, state, sink } = start(t, { kind: clusterRoles, namespaces: ['shop'] })
  await (await api.ask('/apis/rbac.authorization.k8s.io/v1/clusterroles')).answer(403)
  t.match(state(), { is: 'refused', refusedNamespaces: [] })
  t.strictSame(await api.waiting(), [])
  t.strictSame(sink.names(clusterRoles.key), [])
})

t.test('404 is 404 in each namespace', async (t) => {
  const { api } = start(t, { namespaces: ['shop'] })
  await (await api.ask(all)).answer(404)
  t.strictSame(await api.waiting(), [])
})

t.test('an object over 4 MiB is left out and named, until it is smaller or gone', async (t) => {
  const { state, sink, watch } = await startLive(t)
  const huge = (place: string) => {
    const object = { ...pod(place, 12), data: 'x'.repeat(maxEventBytes) }
    return Buffer.from(`${JSON.stringify({ type: 'MODIFIED', object })}\n`)
  }
  for (const place of ['shop/a', 'test/b', 'test/c']) await watch.bytes(huge(place))
  t.match(state(), {
    is: 'live',
    leftOut: [
      { namespace: 'shop', name: 'a' },
      { namespace: 'test', name: 'b' },
      { namespace: 'test', name: 'c' },
    ],
  })
  t.strictSame(sink.names('Pod'), [], 'what was known of them is old')
  await watch.tell(event('MODIFIED', 'shop/a'), event('DELETED', 'test/b'))
  t.strictSame(state()?.leftOut, [{ namespace: 'test', name: 'c' }])
  t.strictSame(sink.names('Pod'), ['shop/a'])
})

t.test('a list leaves out what is too large now, and names nothing that was', async (t) => {
  const { api, clock, state, sink, watch } = await startLive(t)
  await watch.bytes(
    Buffer.from(
      `${JSON.stringify({ type: 'ADDED', object: { ...pod('shop/x'), data: 'x'.repeat(maxEventBytes) } })}\n`,
    ),
  )
  t.strictSame(state()?.leftOut, [{ namespace: 'shop', name: 'x' }])
  await watch.tell({ type: 'ERROR' as const, object: { code: 410 } })
  await clock.pass(1000)
  for (const limit of ['500', '250', '125', '62', '31', '15', '7', '3', '1']) {
    const ask = await api.ask()
    t.equal(ask.query.get('limit'), limit)
    await ask.fail(new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: 5e6, maxBytes: maxEventBytes }))
  }
  await (await api.ask()).answer(200, { metadata: { resourceVersion: '20', continue: 'x' }, items: [pod('shop/a')] })
  await (await api.ask()).answer(200, page('test/b'))
  t.strictSame(sink.names('Pod'), ['test/b'])
  await (await api.watch()).open()
  t.match(state(), { is: 'live', leftOut: [{ namespace: 'shop', name: 'a' }] })
  t.equal(state()?.leftOut.length, 1)
})

t.test('what is left out is told anew when a list finds it gone, however quick that is', async (t) => {
  const { api, clock, state, watch } = await startLive(t)
  const object = { ...pod('shop/x'), data: 'x'.repeat(maxEventBytes) }
  await watch.bytes(Buffer.from(`${JSON.stringify({ type: 'ADDED', object })}\n`))
  await clock.pass(31_000)
  await watch.tell({ type: 'ERROR' as const, object: { code: 410 } })
  await (await api.ask(all)).answer(200, page('shop/a'))
  t.match(state(), { is: 'live', leftOut: [] })
  t.equal(state()?.leftOut.length, 0)
})

t.test('an object that cannot be kept is left out and named, the others are there', async (t) => {
  const { api, sink, state, troubles } = start(t)
  const put = sink.put.bind(sink)
  sink.put = (kind, object) => {
    if ((object as ReturnType<typeof pod>).metadata.name === 'odd') throw new RangeError('too deep')
    put(kind, object)
  }
  await (await api.ask()).answer(200, page('shop/a', 'shop/odd', 'shop/b'))
  const watch = await api.watch()
  await watch.open()
  await watch.tell(event('MODIFIED', 'shop/odd'), event('ADDED', 'shop/c'))
  t.strictSame(sink.names('Pod'), ['shop/a', 'shop/b', 'shop/c'])
  t.match(state(), { is: 'live', leftOut: [{ namespace: 'shop', name: 'odd' }] })
  t.match(troubles, [{ message: 'too deep' }, { message: 'too deep' }])
})

for (const body of [undefined, {}, { metadata: { resourceVersion: '5' } }, { metadata: {}, items: [] }]) {
  t.test(`an answer that is no list removes nothing: ${JSON.stringify(body)}`, async (t) => {
    const { api, clock, sink, state, watch } = await startLive(t)
    await watch.tell({ type: 'ERROR' as const, object: { code: 410 } })
    await clock.pass(1000)
    await (await api.ask(all)).answer(200, body)
    t.strictSame(sink.names('Pod'), ['shop/a', 'test/b'])
    t.match(state(), { is: 'stale', why: 'what the API server answered cannot be read' })
    await clock.pass(2000)
    await (await api.ask(all)).answer(200, { ...page(), items: null })
    t.strictSame(sink.names('Pod'), [])
  })
}

t.test('metadata alone, whatever the server answers', async (t) => {
  const { api, sink } = start(t, { isMetadata: true })
  const ask = await api.ask()
  t.match(ask.accept, /as=PartialObjectMetadataList/)
  await ask.answer(200, {
    metadata: { resourceVersion: '5' },
    items: [{ ...pod('shop/a'), data: { password: 'secret' } }, { spec: {} }, 7],
  })
  t.strictSame(
    [...sink.objects.values()].map(({ object }) => object),
    [{ apiVersion: 'meta.k8s.io/v1', kind: 'PartialObjectMetadata', metadata: pod('shop/a').metadata }],
  )
})

t.test('more watches than may be open', async (t) => {
  const { api, clock, state, open } = start(t, { namespaces: ['shop', 'test'], maxWatches: 2 })
  const giveBack = open.enter('other')
  t.ok(giveBack)
  await (await api.ask(all)).answer(403)
  t.match(state(), { is: 'refused', refusedNamespaces: ['shop', 'test'] })
  t.strictSame(await api.waiting(), [], 'none is asked for')
  giveBack?.()
  await clock.pass(300_000)
  await (await api.ask(inShop)).answer(200, page('shop/a'))
  await (await api.watch(inShop)).open()
  t.match(state(), { is: 'live', refusedNamespaces: ['test'] })
})

t.test('it ends in the midst of all that it waits for', async (t) => {
  const { api, clock, stop } = start(t, { namespaces: ['shop', 'test'] })
  await (await api.ask(all)).answer(403)
  await (await api.ask(inShop)).answer(200, page('shop/a'))
  const watch = await api.watch(inShop)
  await watch.open()
  await stop()
  t.ok(watch.isAborted)
  t.strictSame(clock.waits, [])
})

t.test('a uid belongs to the first group that serves it, whichever is listed first', async (t) => {
  const kindOf = (group: string) => ({ ...pods, key: `${group}/Ingress`, group, plural: 'ingresses' })
  const [first, second] = [kindOf('networking.k8s.io'), kindOf('extensions')]
  for (const kinds of [
    [first, second],
    [second, first],
  ]) {
    const sink = new KeptSink()
    const groups: GroupOrder = {
      kindOf: (uid) => sink.get(uid)?.kind,
      comesBefore: (group, other) => group === first.group && other !== first.group,
    }
    const watches = new Map<string, Awaited<ReturnType<ScriptedApi['watch']>>>()
    for (const kind of kinds) {
      const { api } = start(t, { kind, sink, groups })
      await (await api.ask()).answer(200, page('shop/web'))
      const watch = await api.watch()
      await watch.open()
      watches.set(kind.group, watch)
    }
    t.strictSame([sink.names(first.key), sink.names(second.key)], [['shop/web'], []])
    await watches.get(second.group)?.tell(event('DELETED', 'shop/web'))
    t.strictSame(sink.names(first.key), ['shop/web'], 'the other is not asked')
    await watches.get(first.group)?.tell(event('DELETED', 'shop/web'))
    t.strictSame(sink.names(first.key), [])
    await watches.get(second.group)?.tell(event('ADDED', 'shop/web'))
    t.strictSame(sink.names(second.key), ['shop/web'])
  }
})

t.test(
  'a kind that fails for 50 s while others are followed is set aside, and followed again within 90 s of its mending',
  async (t) => {
    const broken = { message: 'conversion webhook failed' }
    const fail = async ({ api, clock }: ReturnType<typeof start>, forMs: number) => {
      const end = clock.now() + forMs
      while (clock.now() < end) {
        for (const path of await api.waiting()) if (path === all) await (await api.ask(all)).answer(500, broken)
        await clock.pass(Math.min(500, end - clock.now()))
      }
    }
    const never = start(t)
    never.live.add({})
    await fail(never, 49_500)
    t.match(never.state(), { is: 'syncing', why: 'the API server answered 500' })
    await fail(never, 500)
    t.match(never.state(), { is: 'aside', why: 'the API server answered 500', message: broken.message })
    await fail(never, 300_000)
    t.equal(never.state()?.is, 'aside', 'each try that fails leaves it so')
    let waitedMs = 0
    for (; (await never.api.waiting()).length === 0; waitedMs += 500) await never.clock.pass(500)
    t.ok(waitedMs <= 60_000, `it is tried again after ${waitedMs} ms`)
    await (await never.api.ask(all)).answer(200, page('shop/a'))
    t.equal(never.state()?.is, 'aside', 'not before it is watched')
    await (await never.api.watch(all)).open()
    t.match(never.state(), { is: 'live', message: undefined })

    const alone = start(t)
    await fail(alone, 200_000)
    t.equal(alone.state()?.is, 'syncing', 'the API server answers nobody')
    alone.live.add({})
    await fail(alone, 49_000)
    t.equal(alone.state()?.is, 'syncing', 'it has answered others for less than 50 s')
    await fail(alone, 8000)
    t.equal(alone.state()?.is, 'aside')
  },
)

t.test('one that was followed and fails is set aside 50 s after its watch ended; its objects stay', async (t) => {
  const { api, clock, watch, state, sink, live } = await startLive(t)
  live.add({})
  await clock.pass(5000)
  const cutAt = clock.now()
  await watch.end()
  const end = cutAt + 50_000
  const failing = async (until: number) => {
    while (clock.now() < until) {
      for (const _ of await api.waiting()) {
        const again = await api.watch(all)
        await again.open(429)
        await again.end()
      }
      await clock.pass(Math.min(500, until - clock.now()))
    }
  }
  await failing(end - 500)
  t.match(state(), { is: 'stale', since: cutAt })
  await failing(end)
  t.match(state(), { is: 'aside', why: 'the API server answered 429' })
  t.strictSame(sink.names('Pod'), ['shop/a', 'test/b'])
  t.notOk(sink.told.includes('dropped Pod'))
})

t.test('one that does not answer, and one whose watches open and fail at once', async (t) => {
  const silent = start(t)
  silent.live.add({})
  const hang = async (forMs: number) => {
    for (let left = forMs; left > 0; left -= 5000) {
      for (const _ of await silent.api.waiting()) await (await silent.api.ask(all)).fail(new Error('timed out'))
      await silent.clock.pass(Math.min(5000, left))
    }
  }
  await hang(45_000)
  t.equal(silent.state()?.is, 'syncing')
  await hang(5000)
  t.match(silent.state(), { is: 'aside', why: 'the API server does not answer' })

  const flapping = await startLive(t)
  flapping.live.add({})
  await flapping.watch.tell({ type: 'ERROR', object: { code: 500 } } as never)
  for (let second = 0; second < 70; second++) {
    for (const path of await flapping.api.waiting()) {
      t.equal(path, all)
      await (await flapping.api.ask(all)).answer(200, page('shop/a'))
      const again = await flapping.api.watch(all)
      await again.open()
      await again.tell({ type: 'ERROR', object: { code: 500 } } as never)
    }
    await flapping.clock.pass(1000)
  }
  t.equal(flapping.state()?.is, 'aside', 'a watch that ends at once is no success')
})
