import t from 'tap'
import { askEvents } from '../../../../../src/agentk/modules/views/access/ask-events.ts'
import { Warnings, warnings } from '../../../../../src/agentk/modules/views/events.ts'
import type { EventChange } from '../../../../../src/agentk/modules/views/record.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import { ScriptedApi } from '../../cluster/scripted-api.ts'

const { kind } = warnings

/** @param second - when it was seen last */
function event(name: string, second: number, fields: object = {}, about = 'u-pod') {
  return {
    metadata: { namespace: 'shop', name, uid: `u-${name}`, creationTimestamp: '2026-06-01T00:00:00Z' },
    involvedObject: { apiVersion: 'apps/v1', kind: 'Deployment', namespace: 'shop', name: 'web', uid: about },
    type: 'Warning',
    reason: 'Failed',
    message: 'it failed',
    count: 3,
    lastTimestamp: at(second),
    ...fields,
  }
}

const ofPod = { ns: 'shop', about: ['apps/Deployment', 'web', 'u-pod'] } as const

const at = (second: number) => new Date(Date.UTC(2026, 5, 2) + second * 1000).toISOString()

function start(options = {}) {
  const events = new Warnings(options)
  const changes: string[] = []
  events.onChange(({ before, after }: EventChange) => {
    const word = before ? (after ? 'changed' : 'gone') : 'new'
    changes.push(`${word} ${(after ?? before)?.u}`)
  })
  const names = () => [...events.all()].map(({ u }) => u).sort()
  return { events, changes, names }
}

t.test('what is kept of a Warning', (t) => {
  const { events, changes } = start()
  events.put(kind, event('a', 5))
  t.strictSame(
    [...events.all()],
    [
      {
        u: 'u-a',
        ns: 'shop',
        about: ['apps/Deployment', 'web', 'u-pod'],
        type: 'Warning',
        reason: 'Failed',
        text: 'it failed',
        count: 3,
        at: Date.parse(at(5)),
      },
    ],
  )
  events.put(kind, event('a', 6, { count: 4 }))
  t.match([...events.about(ofPod)], [{ count: 4 }])
  events.gone(kind, 'u-a')
  events.gone(kind, 'u-a')
  t.strictSame([...events.about(ofPod)], [])
  t.strictSame(changes, ['new u-a', 'changed u-a', 'gone u-a'])
  t.end()
})

t.test('times and counts in the newer form; long texts are cut; what is no event is none', (t) => {
  const { events } = start()
  const series = { count: 9, lastObservedTime: at(7) }
  events.put(kind, event('a', 0, { lastTimestamp: null, count: undefined, series, eventTime: at(1) }))
  events.put(kind, event('b', 0, { lastTimestamp: null, count: 0, eventTime: at(2), message: 'x'.repeat(1000) }))
  events.put(kind, event('c', 0, { lastTimestamp: 7, involvedObject: { kind: 'Pod', name: {}, uid: 5 } }))
  const [a, b, c] = [...events.all()]
  t.match(a, { count: 9, at: Date.parse(at(7)) })
  t.match(b, { count: 0, at: Date.parse(at(2)) })
  t.equal(b?.text.length, 512)
  t.match(c, { about: ['Pod', '', ''], at: Date.parse('2026-06-01T00:00:00Z') })
  for (const odd of [{}, { metadata: { uid: 'x' } }, event('d', 0, { type: 'Other' })]) events.put(kind, odd)
  t.equal(events.size, 3)
  t.end()
})

t.test('at most so many of one object: the latest', (t) => {
  const { events, changes, names } = start({ maxPerObject: 2 })
  for (const [name, second] of [
    ['b', 2],
    ['c', 3],
    ['a', 1],
    ['d', 4],
  ] as const) {
    events.put(kind, event(name, second))
  }
  events.put(kind, event('other', 0, {}, 'u-other'))
  t.strictSame(names(), ['u-c', 'u-d', 'u-other'])
  t.strictSame(changes, ['new u-b', 'new u-c', 'new u-a', 'gone u-a', 'new u-d', 'gone u-b', 'new u-other'])
  t.end()
})

t.test('at most so many of all: the oldest tenth goes', (t) => {
  const { events, names } = start({ maxEvents: 20 })
  for (let i = 0; i < 21; i++) events.put(kind, event(`e${i}`, (i * 8) % 21, {}, `u-of-${i}`))
  t.equal(events.size, 19)
  t.notOk(names().includes('u-e0'))
  t.notOk(names().includes('u-e8')) // of second 0 and 1
  for (let i = 0; i < 500; i++) {
    events.put(kind, event(`f${i}`, 100 + i, {}, `u-of-f${i}`))
    if (events.size > 20) t.fail('more than may be')
  }
  t.end()
})

t.test('a list that is not whole removes nothing; a whole one what it has not told', (t) => {
  const { events, names } = start()
  events.listing(kind, undefined)
  for (const name of ['a', 'b', 'c']) events.put(kind, event(name, 1))
  events.listed(kind, undefined)
  events.listing(kind, undefined)
  events.put(kind, event('b', 1))
  t.strictSame(names(), ['u-a', 'u-b', 'u-c'])
  events.listing(kind, undefined)
  events.put(kind, event('c', 1))
  events.listed(kind, undefined)
  t.strictSame(names(), ['u-c'])
  t.end()
})

t.test('namespace by namespace', (t) => {
  const { events, names } = start()
  const inTest = (name: string) => event(name, 1, { metadata: { namespace: 'test', uid: `u-${name}` } })
  events.put(kind, event('a', 1))
  events.put(kind, inTest('b'))
  events.put(kind, inTest('c'))
  events.listing(kind, 'test')
  events.put(kind, inTest('c'))
  events.listed(kind, 'test')
  t.strictSame(names(), ['u-a', 'u-c'])
  events.dropped(kind, 'test')
  t.strictSame(names(), ['u-a'])
  events.dropped(kind, undefined)
  t.strictSame(names(), [])
  t.end()
})

t.test('others are asked live, as the caller', async (t) => {
  const api = new ScriptedApi()
  const { signal } = new AbortController()
  const headers = ['Impersonate-User', 'ada']
  const found = askEvents(api, { namespace: 'shop', about: 'u-pod', limit: 50, headers }, signal)
  const ask = await api.ask('/api/v1/namespaces/shop/events')
  t.strictSame(ask.headers, headers)
  t.strictSame(Object.fromEntries(ask.query), { limit: '50', fieldSelector: 'involvedObject.uid=u-pod' })
  await ask.answer(200, { items: [event('a', 1, { type: 'Normal' }), event('b', 2), 'odd'] })
  t.match(await found, { rows: [{ u: 'u-b' }, { u: 'u-a', type: 'Normal' }], more: 0 })
  const denied = askEvents(api, { namespace: '', limit: 50, headers }, signal)
  await (await api.ask('/api/v1/events')).answer(403)
  t.equal(await denied, undefined)
  const odd = askEvents(api, { namespace: '../x', about: 'a,b=c\\', limit: 5, headers }, signal)
  odd.catch(() => undefined)
  const oddAsk = await api.ask('/api/v1/namespaces/..%2Fx/events')
  t.equal(oddAsk.query.get('fieldSelector'), 'involvedObject.uid=a\\,b\\=c\\\\')
  await oddAsk.answer(500)
  await t.rejects(odd, { code: 'UNREACHABLE', message: 'the API server answered 500 for events' })
})

t.test('the API server tells events by name: answers are read on to find the latest, so many at most', async (t) => {
  const api = new ScriptedApi()
  const { signal } = new AbortController()
  const asked = askEvents(api, { namespace: 'shop', limit: 2, headers: [] }, signal)
  const answer = async (items: object[], goOn?: string) => {
    const ask = await api.ask('/api/v1/namespaces/shop/events')
    await ask.answer(200, { metadata: { continue: goOn }, items })
    return ask.query.get('continue')
  }
  t.equal(await answer([event('a', 5), event('b', 1)], 'b+1'), null)
  t.equal(await answer([event('c', 9), event('d', 2)], 'd+1'), 'b+1')
  t.equal(await answer([event('e', 7)]), 'd+1')
  t.match(await asked, { rows: [{ u: 'u-c' }, { u: 'u-e' }], more: 3 })
  const endless = askEvents(api, { namespace: 'shop', limit: 2, headers: [] }, signal)
  for (let i = 0; i < 4; i++) await answer([event(`f${i}`, i)], 'on')
  t.match(await endless, { rows: [{ u: 'u-f3' }, { u: 'u-f2' }], more: 3 }, 'one at least was not read')
})

t.test('an answer that is too large is asked for again with fewer events', async (t) => {
  const api = new ScriptedApi()
  const tooLarge = new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: 2, maxBytes: 1 })
  const asked = askEvents(api, { namespace: 'shop', limit: 50, headers: [] }, new AbortController().signal)
  const ask = () => api.ask('/api/v1/namespaces/shop/events')
  await (await ask()).fail(tooLarge)
  const fewer = await ask()
  t.equal(fewer.query.get('limit'), '5')
  await fewer.answer(200, { metadata: { continue: 'on' }, items: [event('a', 1)] })
  await (await ask()).fail(tooLarge)
  const one = await ask()
  t.strictSame([one.query.get('limit'), one.query.get('continue')], ['1', 'on'])
  await one.answer(200, { metadata: { continue: 'on', remainingItemCount: 7 }, items: [event('b', 2)] })
  t.match(await asked, { rows: [{ u: 'u-b' }, { u: 'u-a' }], more: 7 })
})

t.test('all are told the latest first, whatever came when', (t) => {
  const { events } = start()
  const seconds = [3, 1, 2, 2, 9, 0]
  seconds.forEach((second, i) => {
    events.put(kind, event(`e${i}`, second, {}, `u-of-${i}`))
  })
  const order = () => [...events.all()].map(({ u }) => u)
  t.strictSame(order(), ['u-e4', 'u-e0', 'u-e2', 'u-e3', 'u-e1', 'u-e5'])
  events.put(kind, event('e5', 5, {}, 'u-of-5'))
  events.gone(kind, 'u-e2')
  t.strictSame(order(), ['u-e4', 'u-e5', 'u-e0', 'u-e3', 'u-e1'])
  t.end()
})

t.test('what is said in one namespace takes no room in another', (t) => {
  const { events, names } = start({ maxEvents: 8, maxPerObject: 2 })
  const elsewhere = (name: string, second: number, about?: string) => {
    const said = event(name, second, {}, about)
    return { ...said, metadata: { ...said.metadata, namespace: 'noisy' } }
  }
  events.put(kind, event('own', 1))
  for (let i = 0; i < 5; i++) events.put(kind, elsewhere(`forged${i}`, 10 + i))
  t.ok(names().includes('u-own'), 'though they say that they are about the same object')
  for (let i = 0; i < 50; i++) events.put(kind, elsewhere(`many${i}`, 100 + i, `u${i}`))
  t.ok(names().includes('u-own'), 'though it is the oldest')
  t.equal(events.size <= 8, true)
  t.end()
})
