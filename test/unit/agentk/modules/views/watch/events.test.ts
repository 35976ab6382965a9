import t from 'tap'
import type { EventChange } from '../../../../../../src/agentk/modules/views/store/record.ts'
import { Warnings, warnings } from '../../../../../../src/agentk/modules/views/watch/events.ts'
import { at, event } from '../kube-event.ts'

const { kind } = warnings

const ofPod = { ns: 'shop', about: ['apps/Deployment', 'web', 'u-pod'] } as const

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
  events.deleted(kind, 'u-a')
  events.deleted(kind, 'u-a')
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
  t.notOk(names().includes('u-e8')) // u-e0 and u-e8 are of seconds 0 and 1
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

t.test('all are told the latest first, whatever came when', (t) => {
  const { events } = start()
  const seconds = [3, 1, 2, 2, 9, 0]
  seconds.forEach((second, i) => {
    events.put(kind, event(`e${i}`, second, {}, `u-of-${i}`))
  })
  const order = () => [...events.all()].map(({ u }) => u)
  t.strictSame(order(), ['u-e4', 'u-e0', 'u-e2', 'u-e3', 'u-e1', 'u-e5'])
  events.put(kind, event('e5', 5, {}, 'u-of-5'))
  events.deleted(kind, 'u-e2')
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
