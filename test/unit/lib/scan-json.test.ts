import t from 'tap'
import { maxJsonDepth, scanEvent } from '../../../src/lib/scan-json.ts'
import { Seeded } from '../../support/seeded.ts'

const scan = (text: string) => scanEvent(Buffer.from(text))

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
  '{"type":""}',
]

t.test('the type of an event, as JSON.parse has it', async (t) => {
  for (const text of good) t.equal(await scan(text), parsed(text), text)
})

t.test('what is no event', async (t) => {
  for (const text of [
    '',
    '[]',
    'null',
    '{}',
    '{"type":1}',
    '{"type":{"type":"ADDED"}}',
    '{"type":"ADDED","type":1}',
    '{"object":{"type":"ADDED"}}',
    '{"type":"ADDED"}{"type":"ADDED"}',
    '{"type":"ADDED"},',
    '{"type":"ADDED",}',
    '{"type":"ADDED","a":01}',
    '{"type":"ADDED","a":1.}',
    '{"type":"ADDED","a":-}',
    '{"type":"ADDED","a":1e}',
    '{"type":"ADDED","a":+1}',
    '{"type":"ADDED","a":nul}',
    '{"type":"ADDED","a":"\\x"}',
    '{"type":"ADDED","a":"\\u00g0"}',
    '{"type":"ADDED","a":"\t"}',
    '{"type":"ADDED","a":[1 2]}',
    '{"type":"ADDED","a":[1}',
    '{"type":"ADDED","a":"b}',
    '{"type":"ADDED" "a":1}',
    '{"type":"ADDED",1:1}',
    '{"type" "ADDED"}',
    '{type:"ADDED"}',
  ]) {
    t.equal(parsed(text), undefined, text)
    t.equal(await scan(text), undefined, text)
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
    const found = await scan(changed)
    if (found !== undefined) taken++
    // an escape in a top-level name or in the type is not read, and not needed
    const isStricter = found === undefined && /\\/.test(changed)
    if (found !== expected && !isStricter) t.fail(`${changed}: ${found} instead of ${expected}`)
  }
  t.ok(taken > 1000)
})

t.test('levels without end are refused before they are counted', async (t) => {
  const nested = (levels: number) => `{"type":"ADDED","object":${'['.repeat(levels)}${']'.repeat(levels)}}`
  t.equal(await scan(nested(maxJsonDepth - 1)), 'ADDED')
  t.equal(await scan(nested(maxJsonDepth)), undefined)
})

t.test('a long one lets others have their turn', async (t) => {
  let turns = 0
  let isOver = false
  const count = () => {
    turns++
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  t.equal(await scan(`{"type":"ADDED","object":[${'{},'.repeat(1 << 20)}0]}`), 'ADDED')
  isOver = true
  t.ok(turns >= 20, `${turns} turns for 3 MiB`)
})
