import t, { type Test } from 'tap'
import { DutyCycle } from '../../../../src/agentk/cluster/duty-cycle.ts'
import type { Refusal } from '../../../../src/agentk/cluster/object-list.ts'
import { ObjectWatch, type ObjectWatchOptions } from '../../../../src/agentk/cluster/object-watch.ts'
import { WatchLists } from '../../../../src/agentk/cluster/watch-lists.ts'
import { maxEventBytes } from '../../../../src/agentk/cluster/watch-request.ts'
import type { WatchSink } from '../../../../src/agentk/cluster/watch-sink.ts'
import { KasError } from '../../../../src/lib/errors.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { ScriptedApi, type Watch } from './scripted-api.ts'

const day = 24 * 3600_000
const tooLarge = () => new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: 5e6, maxBytes: maxEventBytes })

function pod(name: string, version = 1, fields: object = {}) {
  return { metadata: { namespace: 'shop', name, uid: `u-${name}`, resourceVersion: String(version), ...fields } }
}
const added = (name: string, version = 1) => ({ type: 'ADDED' as const, object: pod(name, version) })
const deleted = (name: string, version = 1) => ({ type: 'DELETED' as const, object: pod(name, version) })
const bookmark = (version: number, annotations?: object) => ({
  type: 'BOOKMARK' as const,
  object: { metadata: { resourceVersion: String(version), ...(annotations && { annotations }) } },
})
const listEnd = (version: number) => bookmark(version, { 'k8s.io/initial-events-end': 'true' })
const error = (code: number) => ({ type: 'ERROR' as const, object: { kind: 'Status', code } })

/** Records the calls of the watch, one entry per call. */
class RecordedSink implements WatchSink {
  readonly words: string[] = []
  readonly outcomes: Refusal[] = []
  onPut: () => void = () => undefined

  listing = () => void this.words.push('listing')
  listed = () => void this.words.push('listed')
  put = (object: unknown) => {
    this.words.push(`put ${nameOf(object)}`)
    this.onPut()
  }
  deleted = (object: unknown) => void this.words.push(`deleted ${nameOf(object)}`)
  leftOut = ({ namespace, name, uid }: { namespace: string; name: string; uid: string }) =>
    void this.words.push(`left out ${namespace}/${name} ${uid}`)
  following = (is: boolean) => void this.words.push(is ? 'following' : 'not following')
  ended = (outcome: Refusal) => {
    this.outcomes.push(outcome)
    this.words.push(`ended ${outcome.status}`)
  }

  take(): string[] {
    return this.words.splice(0)
  }
}

function nameOf(object: unknown): string {
  return (object as ReturnType<typeof pod>).metadata.name
}

function start(
  t: Test,
  options: Partial<ObjectWatchOptions> = {},
  shared: { watchLists?: WatchLists | false; clock?: ManualClock } = {},
) {
  const api = new ScriptedApi()
  const clock = shared.clock ?? new ManualClock()
  const sink = new RecordedSink()
  const watchLists = shared.watchLists === false ? undefined : (shared.watchLists ?? new WatchLists(clock))
  const dutyCycle = new DutyCycle(clock)
  const turns = { begun: 0, ended: 0 }
  const turn = async () => {
    turns.begun += 1
    let isOver = false
    return () => {
      if (!isOver) turns.ended += 1
      isOver = true
    }
  }
  const watch = new ObjectWatch(
    { client: api, sink, clock, random: () => 0.5, watchLists, turn, dutyCycle },
    { path: '/api/v1/pods', pageSize: 500, leavesOut: true, resumes: true, ...options },
  )
  const stopping = new AbortController()
  const running = watch.run(stopping.signal)
  t.teardown(async () => {
    stopping.abort()
    await running
  })
  const stop = async () => {
    stopping.abort()
    await running
  }
  return { api, clock, sink, turns, stop }
}

/** Starts a watch that has listed everything, up to resource version 10. */
async function startListed(t: Test, options?: Partial<ObjectWatchOptions>) {
  const side = start(t, options)
  const watch = await side.api.watch()
  await watch.open()
  await watch.tell(added('a', 3), added('b', 2), listEnd(10))
  side.sink.take()
  return { ...side, watch }
}

t.test('all is listed by a watch, which goes on', async (t) => {
  const { api, sink, turns, clock } = start(t)
  const watch = await api.watch()
  t.strictSame(Object.fromEntries(watch.query), {
    watch: '1',
    allowWatchBookmarks: 'true',
    timeoutSeconds: '300',
    sendInitialEvents: 'true',
    resourceVersionMatch: 'NotOlderThan',
  })
  t.equal(watch.accept, 'application/json')
  t.strictSame(sink.take(), [], 'not before it is answered')
  await watch.open()
  await watch.tell(added('a', 3), added('b', 2))
  t.strictSame(sink.take(), ['listing', 'put a', 'put b'])
  t.strictSame(turns, { begun: 1, ended: 0 })
  await watch.tell(listEnd(10))
  t.strictSame(sink.take(), ['listed', 'following'])
  t.strictSame(turns, { begun: 1, ended: 1 }, 'another may list')
  await watch.tell(added('c', 11), deleted('a', 12), bookmark(15))
  t.strictSame(sink.take(), ['put c', 'deleted a'])
  await clock.pass(300_000)
  await watch.end()
  t.strictSame(sink.take(), ['not following', 'ended 200'])
  const next = await api.watch()
  t.equal(next.query.get('resourceVersion'), '15', 'what a bookmark has told')
  t.equal(next.query.has('sendInitialEvents'), false)
  await next.open()
  t.strictSame(sink.take(), ['following'], 'no list')
  t.strictSame(turns, { begun: 1, ended: 1 })
})

t.test('metadata alone', async (t) => {
  const { api } = start(t, { isMetadata: true, path: '/api/v1/secrets?fieldSelector=x' })
  const watch = await api.watch()
  t.equal(watch.path, '/api/v1/secrets')
  t.equal(watch.query.get('fieldSelector'), 'x')
  t.equal(watch.query.get('watch'), '1')
  t.match(watch.accept, /^application\/json;as=PartialObjectMetadata;g=meta\.k8s\.io;v=v1,application\/json$/)
  await watch.open(422)
  await watch.end()
  const page = await api.ask()
  t.equal(page.query.get('fieldSelector'), 'x')
  t.match(page.accept, /^application\/json;as=PartialObjectMetadataList;g=meta\.k8s\.io;v=v1,application\/json$/)
})

for (const status of [400, 422]) {
  t.test(`${status}: pages of 500, for all who list, until the next day`, async (t) => {
    const clock = new ManualClock()
    const watchLists = new WatchLists(clock)
    const { api, sink, turns } = start(t, {}, { watchLists })
    const watch = await api.watch()
    await watch.open(status)
    await watch.end()
    const first = await api.ask()
    t.strictSame(Object.fromEntries(first.query), { limit: '500' })
    await first.answer(200, { metadata: { resourceVersion: '7', continue: 'on/1' }, items: [pod('a'), pod('b')] })
    const second = await api.ask()
    t.strictSame(Object.fromEntries(second.query), { limit: '500', continue: 'on/1' })
    t.strictSame(turns, { begun: 1, ended: 0 })
    await second.answer(200, { metadata: { resourceVersion: '7' }, items: [pod('c')] })
    t.strictSame(turns, { begun: 1, ended: 1 })
    const next = await api.watch()
    t.equal(next.query.get('resourceVersion'), '7')
    await next.open()
    await next.tell(added('d', 8))
    const words = ['not following', 'listing', 'put a', 'put b', 'put c', 'listed', 'following', 'put d']
    t.strictSame(sink.take(), words)
    const other = start(t, {}, { watchLists })
    t.same((await other.api.ask()).path, '/api/v1/pods', 'nobody else asks for a list by a watch')
    await clock.pass(day)
    const later = start(t, {}, { watchLists })
    t.ok((await later.api.watch()).query.has('sendInitialEvents'))
  })
}

t.test('10 s without object or bookmark: pages', async (t) => {
  const { api, clock, sink } = start(t)
  const watch = await api.watch()
  await watch.open()
  for (let i = 0; i < 3; i++) {
    await clock.pass(9000)
    await watch.tell(added(`p${i}`))
  }
  t.notOk(watch.isAborted)
  await clock.pass(9999)
  t.notOk(watch.isAborted)
  await clock.pass(1)
  t.ok(watch.isAborted)
  sink.take()
  const page = await api.ask()
  await page.answer(200, { metadata: { resourceVersion: '7' }, items: [pod('p0')] })
  t.strictSame(sink.take(), ['listing', 'put p0', 'listed'], 'a list of its own')
})

t.test('10 s without an answer: pages, for this list alone', async (t) => {
  const clock = new ManualClock()
  const watchLists = new WatchLists(clock)
  const { api } = start(t, {}, { watchLists, clock })
  const watch = await api.watch()
  await clock.pass(10_000)
  t.ok(watch.isAborted)
  t.equal((await api.ask()).query.get('limit'), '500')
  t.ok(watchLists.isOffered, 'it may have been away')
})

t.test('a list by a watch that ends before its end is made by pages', async (t) => {
  const { api, sink } = start(t)
  const watch = await api.watch()
  await watch.open()
  await watch.tell(added('a', 5))
  await watch.end()
  t.equal((await api.ask()).query.get('limit'), '500')
  t.notOk(sink.words.includes('listed'))
})

for (const [title, end] of [
  ['is cut', (watch: Watch) => watch.cut()],
  ['fails', (watch: Watch) => watch.tell(error(500))],
] as const) {
  t.test(`a list by a watch that ${title}: the next one is made by pages, later ones by watches again`, async (t) => {
    const { api, clock, sink, turns } = start(t)
    const watch = await api.watch()
    await watch.open()
    await watch.tell(added('a', 5))
    await end(watch)
    t.strictSame(turns, { begun: 1, ended: 1 })
    t.strictSame(await api.waiting(), [], 'not at once')
    await clock.pass(1000)
    await (await api.ask()).answer(200, { metadata: { resourceVersion: '7' }, items: [] })
    const next = await api.watch()
    t.equal(next.query.get('resourceVersion'), '7')
    await next.open()
    await next.tell(error(410))
    await clock.pass(2000)
    t.ok((await api.watch()).query.has('sendInitialEvents'))
    t.equal(sink.words.filter((word) => word === 'listed').length, 1)
  })
}

t.test('a watch that is cut goes on from the last change', async (t) => {
  const { api, clock, sink, watch, turns } = await startListed(t)
  await watch.tell(added('c', 11))
  await watch.cut()
  t.strictSame(sink.take(), ['put c', 'not following', 'ended 0'])
  for (const waitMs of [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]) {
    await clock.pass(waitMs - 1)
    t.strictSame(await api.waiting(), [])
    await clock.pass(1)
    const next = await api.watch()
    t.equal(next.query.get('resourceVersion'), '11')
    await next.open(503)
    await next.end()
  }
  await clock.pass(30_000)
  const next = await api.watch()
  await next.open()
  sink.take()
  await next.tell(added('d', 12))
  t.strictSame(sink.take(), ['put d'])
  t.equal(turns.begun, 1, 'nothing is listed again')
})

t.test('a watch that is cut after a while goes on at once', async (t) => {
  const { api, clock, sink, watch } = await startListed(t)
  await clock.pass(30_000)
  await watch.cut()
  t.strictSame(sink.take(), ['not following', 'ended 410'])
  t.equal((await api.watch()).query.get('resourceVersion'), '10')
})

t.test(
  'failures before a watch do not delay what follows its first cut; each cut of more doubles the wait',
  async (t) => {
    const { api, clock } = start(t, {}, { watchLists: false })
    for (let waitMs = 1000; waitMs <= 16_000; waitMs *= 2) {
      await (await api.ask()).answer(500)
      await clock.pass(waitMs)
    }
    for (const waitMs of [1000, 2000, 4000]) {
      await (await api.ask()).answer(200, { metadata: { resourceVersion: '7' }, items: [] })
      const watch = await api.watch()
      await watch.open()
      await watch.tell(error(410))
      await clock.pass(waitMs - 1)
      t.strictSame(await api.waiting(), [])
      await clock.pass(1)
    }
  },
)

t.test('who does not go on lists again after each cut', async (t) => {
  const { api, clock, watch } = await startListed(t, { resumes: false })
  await watch.cut()
  await clock.pass(1000)
  t.ok((await api.watch()).query.has('sendInitialEvents'))
})

for (const [title, end] of [
  ['410, in the midst of it,', (watch: Watch) => watch.tell(error(410))],
  ['a failure that it tells', (watch: Watch) => watch.tell(error(500))],
  ['a line that is no JSON', (watch: Watch) => watch.bytes(Buffer.from('{"type":\n'))],
] as const) {
  t.test(`${title} lists all again: what is not there is gone then`, async (t) => {
    const { api, clock, sink, watch } = await startListed(t)
    await end(watch)
    await clock.pass(1000)
    const next = await api.watch()
    t.ok(next.query.has('sendInitialEvents'))
    await next.open()
    await next.tell(added('b', 20), listEnd(21))
    t.strictSame(sink.take().slice(2), ['listing', 'put b', 'listed', 'following'])
  })
}

t.test('410 to a watch that goes on lists all again', async (t) => {
  const { api, clock, watch } = await startListed(t)
  await watch.end()
  await clock.pass(1000)
  const next = await api.watch()
  await next.open(410)
  await next.end()
  await clock.pass(1000)
  t.ok((await api.watch()).query.has('sendInitialEvents'))
})

t.test('410 within pages begins the list anew', async (t) => {
  const { api, clock, sink } = start(t, {}, { watchLists: false })
  await (await api.ask()).answer(200, { metadata: { resourceVersion: '7', continue: 'on' }, items: [pod('a')] })
  await (await api.ask()).answer(410)
  await clock.pass(1000)
  const again = await api.ask()
  t.notOk(again.query.has('continue'))
  await again.answer(200, { metadata: { resourceVersion: '9' }, items: [pod('b')] })
  t.strictSame(sink.take(), ['listing', 'put a', 'ended 410', 'listing', 'put b', 'listed'])
})

t.test('all is listed again after a day, whatever watches have told', async (t) => {
  const { api, clock, sink, watch } = await startListed(t)
  await watch.end()
  for (let at = 0; at < day - 300_000; at += 300_000) {
    await clock.pass(300_000)
    const next = await api.watch()
    t.equal(next.query.get('resourceVersion'), '10')
    await next.open()
    await clock.pass(1)
    await next.end()
  }
  await clock.pass(300_000)
  const [last] = [await api.watch()]
  await last.open()
  await clock.pass(300_000)
  await last.end()
  t.ok((await api.watch()).query.has('sendInitialEvents'))
  t.notOk(sink.words.includes('listing'))
})

for (const status of [403, 404, 405]) {
  t.test(`${status}: tried again after 5 minutes, by a list`, async (t) => {
    const { api, clock, sink, turns } = start(t)
    const watch = await api.watch()
    await watch.open(status)
    await watch.end()
    t.strictSame(sink.take(), ['not following', `ended ${status}`])
    t.strictSame(turns, { begun: 1, ended: 1 })
    await clock.pass(299_999)
    t.strictSame(await api.waiting(), [])
    await clock.pass(1)
    const again = await api.watch()
    await again.open()
    await again.tell(listEnd(5))
    t.strictSame(sink.take(), ['listing', 'listed', 'following'])
  })
}

t.test('rights that are taken away from a watch', async (t) => {
  const { api, clock, sink, watch } = await startListed(t)
  await watch.end()
  await clock.pass(1000)
  const next = await api.watch()
  await next.open(403)
  await next.end()
  t.equal(sink.words.at(-1), 'ended 403')
  await clock.pass(300_000)
  t.ok((await api.watch()).query.has('sendInitialEvents'), 'all is listed when they are back')
})

t.test('one object of a page that is too large is left out by name, the list goes on', async (t) => {
  const { api, sink } = start(t, { pageSize: 4 }, { watchLists: false })
  for (const limit of ['4', '2', '1']) {
    const ask = await api.ask()
    t.equal(ask.query.get('limit'), limit)
    await ask.fail(tooLarge())
  }
  const skip = await api.ask()
  t.equal(skip.query.get('limit'), '1')
  t.match(skip.accept, /^application\/json;as=PartialObjectMetadataList/)
  await skip.answer(200, { metadata: { resourceVersion: '7', continue: 'next' }, items: [pod('huge')] })
  t.strictSame(sink.take(), ['listing', 'left out shop/huge u-huge'])
  for (const [limit, next] of [
    ['1', 'x'],
    ['1', 'y'],
    ['2', 'z'],
    ['2', 'end'],
    ['4', ''],
  ] as const) {
    const ask = await api.ask()
    t.equal(ask.query.get('limit'), limit, 'pages grow again')
    await ask.answer(200, { metadata: { resourceVersion: '7', continue: next }, items: [pod(`p${next}`)] })
  }
  t.strictSame(sink.take(), ['put px', 'put py', 'put pz', 'put pend', 'put p', 'listed'])
})

t.test('who leaves nothing out is told the place of what is too large', async (t) => {
  const { api, sink } = start(t, { pageSize: 2, leavesOut: false }, { watchLists: false })
  await (await api.ask()).answer(200, {
    metadata: { resourceVersion: '7', continue: 'x' },
    items: [pod('a'), pod('b')],
  })
  await (await api.ask()).fail(tooLarge())
  await (await api.ask()).fail(tooLarge())
  t.match(sink.outcomes, [{ status: 0, error: { code: 'MESSAGE_TOO_LARGE' }, count: 3 }])
  t.strictSame(await api.waiting(), [])
})

/** Metadata at the end of the object, after other texts that resemble metadata. */
function hugeLine(type: string, name: string): Buffer {
  const data = {
    name: 'no',
    metadata: { name: 'no', uid: 'no' },
    texts: ['"name":"no"', 'a\\"', 'x'.repeat(maxEventBytes)],
  }
  const metadata = {
    annotations: { name: 'no' },
    labels: { uid: 'no' },
    ...pod(name).metadata,
    ownerReferences: [data],
  }
  return Buffer.from(`${JSON.stringify({ object: { data, metadata, name: 'no' }, type })}\n`)
}

t.test('an object of a watch that is too large is left out by name, the watch goes on', async (t) => {
  const { sink, watch } = await startListed(t)
  const lines = Buffer.concat([
    hugeLine('MODIFIED', 'a'),
    Buffer.from(`${JSON.stringify(added('c', 12))}\n`),
    hugeLine('DELETED', 'ü"'),
    Buffer.from(`${JSON.stringify(added('d', 13))}\n`),
  ])
  for (let at = 0; at < lines.length; at += 65_536) await watch.bytes(lines.subarray(at, at + 65_536))
  t.strictSame(sink.take(), ['left out shop/a u-a', 'put c', 'deleted ü"', 'put d'])
  t.notOk(watch.isAborted)
})

t.test('it rests as long as it has worked', async (t) => {
  const { api, clock, sink } = start(t, {}, { watchLists: false })
  sink.onPut = () => clock.freeze(3)
  const items = Array.from({ length: 7 }, (_, i) => pod(`p${i}`))
  await (await api.ask()).answer(200, { metadata: { resourceVersion: '7' }, items })
  t.equal(sink.words.length, 1 + 3, '9 ms of work')
  await clock.pass(8)
  t.equal(sink.words.length, 1 + 3)
  await clock.pass(1)
  t.equal(sink.words.length, 1 + 6)
  await clock.pass(9)
  t.equal(sink.words.at(-1), 'listed')
  const watch = await api.watch()
  await watch.open()
  await watch.tell(added('a', 8), added('b', 9), added('c', 10))
  t.ok(watch.isPaused, 'between pieces of a watch, too')
  await clock.pass(12)
  t.notOk(watch.isPaused)
})

t.test('it stops in the midst of a page, and of a rest', async (t) => {
  const { api, clock, sink, stop, turns } = start(t, {}, { watchLists: false })
  sink.onPut = () => clock.freeze(10)
  await (await api.ask()).answer(200, { metadata: { resourceVersion: '7' }, items: [pod('a'), pod('b')] })
  await stop()
  t.strictSame(sink.take(), ['listing', 'put a'])
  t.strictSame(turns, { begun: 1, ended: 1 })
  t.strictSame(clock.waits, [])
})

t.test('a watch that does not end in time is cut', async (t) => {
  const { clock, sink, watch } = await startListed(t)
  await clock.pass(314_999)
  t.notOk(watch.isAborted)
  await clock.pass(1)
  t.ok(watch.isAborted)
  t.strictSame(sink.take(), ['not following', 'ended 410'])
})
