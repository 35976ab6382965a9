import t from 'tap'
import { readJsonEvent } from '../../../../../../../src/kas/servers/kubernetes/watch/resume/json-event.ts'
import { Seeded } from '../../../../../../support/seeded.ts'

const read = (text: string) => readJsonEvent(Buffer.from(text))

t.test('an event as API servers write it', async (t) => {
  t.same(
    read('{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"12"}}}\n'),
    {
      type: 'ADDED',
      resourceVersion: '12',
      endsInitialEvents: false,
    },
  )
  const table = '{"kind":"Table","metadata":{"resourceVersion":"13"},"columnDefinitions":null,"rows":[]}'
  t.match(read(`{"type":"MODIFIED","object":${table}}`), { type: 'MODIFIED', resourceVersion: '13' })
  const status = '{"kind":"Status","metadata":{},"code":410}'
  t.match(read(`{"type":"ERROR","object":${status}}`), { type: 'ERROR', resourceVersion: undefined })
})

t.test('names and versions with escapes, as Go writes them, and beyond ASCII', async (t) => {
  t.match(read('{"type":"ADDED","object":{"metadata":{"resourceVersion":"5\\u0026a\\u003cb\\\\"}}}'), {
    resourceVersion: '5&a<b\\',
  })
  t.match(read('{"t\\u0079pe":"ADDED","object":{"metadata":{"resourceVersion":"é"}}}'), {
    type: 'ADDED',
    resourceVersion: 'é',
  })
  t.equal(read('{"type":"ADDED","object":{"metadata":{"resourceVersion":"\\x"}}}'), undefined)
})

t.test('the bookmark behind what was there', async (t) => {
  const bookmark = (annotations: string) =>
    read(`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":${annotations}}}}`)
  t.match(bookmark('{"k8s.io/initial-events-end":"true"}'), { resourceVersion: '9', endsInitialEvents: true })
  t.match(bookmark('{"other":"k8s.io/initial-events-end"}'), { resourceVersion: '9', endsInitialEvents: false })
  t.match(bookmark('{}'), { endsInitialEvents: false })
  const metadata = '{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"9"}'
  t.match(read(`{"type":"ADDED","object":{"metadata":${metadata}}}`), {
    resourceVersion: '9',
    endsInitialEvents: false,
  })
})

t.test('words of a tenant pose as nothing', async (t) => {
  const evil = [
    '"alpha":{"resourceVersion":"666","metadata":{"resourceVersion":"666"}}',
    '"alpha":"\\"metadata\\":{\\"resourceVersion\\":\\"666\\"}"',
    '"alpha\\"metadata":{"resourceVersion":"666"}',
    '"alpha":["metadata",{"metadata":{"resourceVersion":"666"}}]',
    '"alpha\\\\":"}","b":"metadata"',
  ]
  const annotations = '{"a":"\\"resourceVersion\\":\\"666\\",","b\\"resourceVersion":"666"}'
  for (const words of evil) {
    const json = `{${words},"metadata":{"annotations":${annotations},"resourceVersion":"7"},"z":{"resourceVersion":"666"}}`
    t.ok(JSON.parse(json), words)
    t.match(read(`{"type":"MODIFIED","object":${json}}`), { type: 'MODIFIED', resourceVersion: '7' }, words)
    t.match(read(`{"object":${json},"type":"MODIFIED"}`), { type: 'MODIFIED', resourceVersion: '7' }, words)
  }
})

t.test('what is no event says nothing', async (t) => {
  const none = [
    '',
    '\n',
    'null',
    '[]',
    '{',
    '{"type"',
    '{"type":"ADDED"',
    '{"type":"ADDED","object":{"metadata":{',
    '{"object":{}}',
  ]
  for (const text of none) t.equal(read(text), undefined, text)
  t.equal(
    read(`{"type":"ADDED","object":{"a":"${'x'.repeat(600_000)}","metadata":{"resourceVersion":"1"}}}`),
    undefined,
    'too late',
  )
  t.match(read('{"type":"ADDED","object":[1,-2.5e+3,true,null]}'), undefined)
})

t.test('whatever the object is, and however it is spaced: what JSON.parse finds', async (t) => {
  const random = new Seeded(31)
  const value = (depth: number): unknown => {
    const kind = random.int(depth > 4 ? 4 : 6)
    if (kind === 0) return random.int(1000) - 500.5
    if (kind === 1) return [true, false, null][random.int(3)]
    if (kind < 4) return ['', '"', '\\', '\\"', '}', '"metadata":', 'resourceVersion', '\u0000\n', 'é𝄞'][random.int(9)]
    if (kind === 4) return Array.from({ length: random.int(4) }, () => value(depth + 1))
    const names = ['metadata', 'resourceVersion', 'type', 'object', 'a"b', 'c\\', 'annotations']
    return Object.fromEntries(Array.from({ length: random.int(5) }, () => [names[random.int(7)], value(depth + 1)]))
  }
  for (let i = 0; i < 2000; i++) {
    const metadata = { ...(value(0) as object), resourceVersion: `${i}` }
    const object = { before: value(0), metadata, after: value(0) }
    const event = { type: 'MODIFIED', object }
    const json = JSON.stringify(event, undefined, random.int(2) * 2)
    const got = read(json)
    if (got?.resourceVersion !== `${i}` || got.type !== 'MODIFIED') return t.fail(`${json}: ${JSON.stringify(got)}`)
  }
  return t.pass('2000 of them')
})
