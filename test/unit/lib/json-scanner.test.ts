import t from 'tap'
import {
  isOneObject,
  JsonScanner,
  type JsonScanPlan,
  maxJsonDepth,
  scanInTurns,
} from '../../../src/lib/json-scanner.ts'
import { Seeded } from '../../support/seeded.ts'

const eventType: JsonScanPlan = { places: { type: 'type' }, maxDepth: maxJsonDepth, maxTextBytes: 64 }
const pod: JsonScanPlan = {
  places: { type: 'type', object: { metadata: { name: 'name', labels: { app: 'app' } } } },
  maxDepth: maxJsonDepth,
  maxTextBytes: 64,
}

/** Returns the texts; undefined: the bytes are no such object. */
function read(plan: JsonScanPlan, text: string, pieceBytes = text.length) {
  const scanner = new JsonScanner(plan)
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += pieceBytes) scanner.add(bytes.subarray(at, at + pieceBytes))
  return scanner.isDone ? scanner.texts : undefined
}

const typeOf = (text: string, pieceBytes?: number) => read(eventType, text, pieceBytes)?.type

/** Returns the type of an event as JSON.parse reads it; undefined: it is not an event. */
function parsed(text: string): string | undefined {
  try {
    const value = JSON.parse(text) as { type?: unknown } | null
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    return isObject && typeof value.type === 'string' ? value.type : undefined
  } catch {
    return undefined
  }
}

const good = [
  '{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a","labels":{}},"spec":[1,-2.5e+3,0.1,true,false,null]}}',
  ' { "object" : [ ] , "type" : "MODIFIED" } ',
  '{"type":"BOOKMARK","object":"\\u00e9 \\" \\\\ \\n"}',
  '{"object":{"type":1,"a\\u0041":[[],{}]},"type":"DELETED"}',
  '{"type":"ADDED","type":"ERROR"}',
  '{"t\\u0079pe":"ADD\\u0045D"}',
  '{"type":""}',
]

t.test('the type of an event, as JSON.parse has it, in pieces of any size', async (t) => {
  for (const text of good) for (const size of [1, 2, 7, 1000]) t.equal(typeOf(text, size), parsed(text), text)
})

t.test('what is no event', async (t) => {
  for (const text of [
    '',
    '[]',
    'null',
    '7',
    '"type"',
    '{}',
    '{"type":1}',
    '{"type":{"type":"ADDED"}}',
    '{"type":"ADDED","type":1}',
    '{"type":"ADDED","type":{}}',
    '{"object":{"type":"ADDED"}}',
    '{"type":"ADDED"}{"type":"ADDED"}',
    '{"type":"ADDED"},',
    '{"type":"ADDED"}}',
    '{"type":"ADDED",}',
    '{"type":"ADDED","a":01}',
    '{"type":"ADDED","a":1.}',
    '{"type":"ADDED","a":-}',
    '{"type":"ADDED","a":1e}',
    '{"type":"ADDED","a":+1}',
    '{"type":"ADDED","a":nul}',
    '{"type":"ADDED","a":nulll}',
    '{"type":"ADDED","a":"\\x"}',
    '{"type":"ADDED","a":"\\u00g0"}',
    '{"type":"ADDED","a":"\t"}',
    '{"type":"ADDED","a":[1 2]}',
    '{"type":"ADDED","a":[1,]}',
    '{"type":"ADDED","a":[1}',
    '{"type":"ADDED","a":[}',
    '{"type":"ADDED","a":}',
    '{"type":"ADDED","a":"b}',
    '{"type":"ADDED" "a":1}',
    '{"type":"ADDED",1:1}',
    '{"type":"ADDED","a"}',
    '{"type" "ADDED"}',
    '{type:"ADDED"}',
  ]) {
    t.equal(parsed(text), undefined, text)
    for (const size of [1, 1000]) t.equal(typeOf(text, size), undefined, text)
  }
})

t.test('bytes that were changed are taken where JSON.parse takes them, and nowhere else', async (t) => {
  const random = Seeded.for(t)
  const alphabet = '{}[]",:\\u0019eE+-. tfnalsr\t\u0001é'
  let taken = 0
  for (let round = 0; round < 20_000; round++) {
    const text = good[round % good.length] as string
    const at = random.int(text.length)
    const one = alphabet[random.int(alphabet.length)] as string
    const changed = text.slice(0, at) + one + text.slice(at + random.int(2))
    const expected = parsed(changed)
    const found = typeOf(changed, 1 + random.int(changed.length))
    if (found !== undefined) taken++
    if (found !== expected) t.fail(`${changed}: ${found} instead of ${expected}`)
  }
  t.ok(taken > 1000)
})

t.test('texts are read at their places only', async (t) => {
  const odd = { name: 'no', app: 'no', metadata: { name: 'no' }, list: ['name', { name: 'no' }, '{"name":'] }
  const metadata = { odd, labels: { ...odd, app: 'é𝄞"\\' }, name: 'web' }
  const event = { odd, object: { ...odd, metadata, after: [odd, [odd]] }, name: 'no', type: 'ADDED' }
  const expected = { type: 'ADDED', name: 'web', app: 'é𝄞"\\' }
  for (const size of [1, 2, 3, 7, 10_000]) {
    t.strictSame(read(pod, JSON.stringify(event), size), expected)
    t.strictSame(read(pod, JSON.stringify(event, undefined, 2), size), expected, 'with spaces')
  }
  t.strictSame(read(pod, '{"__proto__":"x","constructor":{"name":"x"},"object":{"toString":{"name":"x"}}}'), {})
})

t.test('on the way to a place are objects', async (t) => {
  for (const value of ['null', '[{"metadata":{"name":"x"}}]', '["metadata",{"name":"x"}]', '"metadata"', '7', 'true'])
    t.equal(read(pod, `{"type":"ADDED","object":${value}}`), undefined, value)
})

t.test('of members with one name the last one counts, and only if it is a text that is not too long', async (t) => {
  const metadata = (members: string, size?: number) => read(pod, `{"object":{"metadata":{${members}}}}`, size)
  const long = 'x'.repeat(65)
  for (const size of [1, 10, 1000]) {
    t.strictSame(metadata('"name":"a","name":"b"', size), { name: 'b' })
    for (const value of ['7', 'null', '{"name":"c"}', '["c"]', `"${long}"`])
      t.strictSame(metadata(`"name":"a","name":${value}`, size), {}, value)
    t.strictSame(metadata(`"name":"${long.slice(1)}"`, size), { name: long.slice(1) })
    t.strictSame(metadata(`"${long}":"a","name":"b"`, size), { name: 'b' })
  }
})

t.test('long names and texts are passed, in pieces too, and stay checked', async (t) => {
  const long = `${'x'.repeat(65)}\\"${'y'.repeat(5000)}\\\\${'\\n'.repeat(100)}{[\\"name\\":\\ud834\\udd1e`
  const event = (text: string) =>
    `{"object":{"a":"${text}","metadata":{"${text}":"a","name":"web","labels":{"app":"${text}"}}},"type":"ADDED"}`
  t.ok(JSON.parse(event(long)))
  for (const size of [1, 63, 3000, 100_000])
    t.strictSame(read(pod, event(long), size), { name: 'web', type: 'ADDED' }, `${size}`)
  t.equal(read(pod, event(long).slice(0, 5000)), undefined)
  for (const wrong of ['\\x', '\\u00g0', '\t', '\u0000'])
    for (const size of [1, 100_000]) t.equal(read(pod, event(long + wrong), size), undefined, wrong)
})

t.test('texts with escapes, surrogates and bytes beyond ASCII are whole, wherever they are cut', async (t) => {
  const written = '\\ud834\\udd1e \\ud834 𝄞é\\u0000\\/\\"\\\\'
  const event = `{"type":"${written}","a.type":"no","type.a":"no","numbers":[-0.5e-7,1E+2,0],"last":12}`
  const { type } = JSON.parse(event) as { type: string }
  for (let size = 1; size < event.length; size++) t.equal(typeOf(event, size), type, `${size}`)
  t.equal(typeOf(`{"type":"${written}","last":12`), undefined)
})

t.test('a scan ends once its texts are enough, or the bytes are wrong', async (t) => {
  const scanner = new JsonScanner({ ...pod, isEnough: ({ name }) => name !== undefined })
  t.ok(scanner.add(Buffer.from('{"object":{"metadata":{"na')))
  t.notOk(scanner.isDone)
  t.notOk(scanner.add(Buffer.from('me":"web","name":"other",]')))
  t.ok(scanner.isDone)
  t.notOk(scanner.add(Buffer.from('"name":"other"')))
  t.strictSame(scanner.texts, { name: 'web' })

  const wrong = new JsonScanner(pod)
  t.notOk(wrong.add(Buffer.from('{"type":"ADDED",]')))
  t.notOk(wrong.add(Buffer.from('}')))
  t.notOk(wrong.isDone)

  const empty = new JsonScanner(pod)
  t.ok(empty.add(Buffer.alloc(0)))
  t.notOk(empty.isDone)
})

t.test('levels without end are refused before they are counted', async (t) => {
  const nested = (levels: number) => `{"type":"ADDED","object":${'['.repeat(levels)}${']'.repeat(levels)}}`
  t.equal(typeOf(nested(maxJsonDepth - 1)), 'ADDED')
  t.equal(typeOf(nested(maxJsonDepth)), undefined)
  const mixed = `{"type":"ADDED","object":${'[{"a":'.repeat(200)}1${'}]'.repeat(200)}}`
  t.equal(typeOf(mixed), 'ADDED')
  t.equal(typeOf(mixed.replace('}]}]', '}]]}')), undefined)
})

t.test('escapes in what is read are refused on demand', async (t) => {
  const plan = { ...eventType, refusesEscapes: true }
  for (const size of [1, 1000]) {
    t.strictSame(read(plan, '{"type":"ADDED","a":{"\\n":"\\n"},"b":"\\n"}', size), { type: 'ADDED' })
    for (const text of ['{"type":"ADD\\u0045D"}', '{"t\\u0079pe":"ADDED"}', '{"type":"ADDED","a\\n":1}'])
      t.equal(read(plan, text, size), undefined, text)
  }
})

t.test('one object, whose own names have no escapes', async (t) => {
  const isOne = (text: string) => isOneObject(Buffer.from(text))
  for (const text of ['{}', ' {"a":1}\n', '{"a":{"b\\n":"\\n"}}']) t.ok(await isOne(text), text)
  for (const text of ['', 'null', '[]', '{}{}', '{"a":1},"b":2', '{"a\\n":1}', '{"a":'])
    t.notOk(await isOne(text), text)
})

t.test('a long one lets others have their turn', async (t) => {
  let turns = 0
  let isOver = false
  const count = () => {
    turns++
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  const scanner = await scanInTurns(eventType, Buffer.from(`{"type":"ADDED","object":[${'{},'.repeat(1 << 20)}0]}`))
  isOver = true
  t.equal(scanner.isDone && scanner.texts.type, 'ADDED')
  t.ok(turns >= 20, `${turns} turns for 3 MiB`)
})
