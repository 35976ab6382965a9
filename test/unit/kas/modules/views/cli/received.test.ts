import t from 'tap'
import { BadAnswer } from '../../../../../../src/kas/command/bad-answer.ts'
import { problemsOf } from '../../../../../../src/kas/modules/views/cli/problems.ts'
import { readMessage } from '../../../../../../src/kas/modules/views/cli/received.ts'
import { ShownView } from '../../../../../../src/kas/modules/views/cli/shown-view.ts'
import { notFollowedText, stateText } from '../../../../../../src/kas/modules/views/cli/state-text.ts'
import { treeText } from '../../../../../../src/kas/modules/views/cli/tree-text.ts'
import { Paint } from '../../../../../../src/kas/modules/views/cli/verdict-text.ts'
import { Seeded } from '../../../../../support/seeded.ts'
import { startViewsServer } from './views-server.ts'

const layout = { paint: new Paint(false), now: 1_763_790_000_000, columns: 80, isVerbose: false }
const asked = { query: { scope: { environment: '7/x' } }, words: ['po'], names: [{ kind: 'po', name: 'web' }] }

/** A hostile agent can send anything. The commands end with one sentence and keep no more than a view may have. */

const valid = () => ({
  type: 'update',
  id: 1,
  update: {
    seq: 1,
    at: 1_763_790_000_000,
    rows: [
      {
        u: 'a',
        k: 'Pod',
        ns: 'shop',
        n: 'web',
        h: ['Degraded', 'Failed', 'Degraded'],
        why: ['x', '', 'y'],
        f: ['1/2'],
        c: 2,
        w: 'Healthy',
        l: [['selects', 'b', 'Pod', 'shop', 'web']],
        z: {
          kind: 'Pod',
          namespace: 'shop',
          name: 'web-1',
          id: 'b',
          reason: 'OOMKilled',
          text: 'container app',
          since: 1_763_789_000_000,
          atLeast: true,
          last: 1,
          count: 2,
          others: 1,
          next: 'kubectl -n shop logs web-1 -c app --previous',
        },
        g: 3,
      },
      { u: 'b', k: 'Pod', n: 'web', p: 'a', t: 1 },
    ],
    gone: ['c'],
    events: [
      { u: 'e', ns: 'shop', about: ['Pod', 'web', 'a'], type: 'Normal', reason: 'Started', text: 'x', count: 1, at: 1 },
    ],
    pages: {
      '': { order: ['a'], counts: { Degraded: 1 }, more: 0 },
      a: { order: ['b'], counts: {}, more: 3 },
      z: null,
    },
    kinds: { Pod: ['v1', 'pods'] },
    state: {
      is: 'live',
      since: 0,
      why: 'x',
      notFollowed: ['Secret'],
      problems: ['rule of health a.com/A: no'],
      you: { username: 'gitlab:user:bob', groups: ['gitlab:user'] },
      refused: [['pods', 'shop']],
      unknown: [['pdos', 'pods']],
    },
  },
})

const deep = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)
/** one JSON text each */
const odd = [
  'null',
  'true',
  '0',
  '-1',
  '1.5',
  '1e999',
  '-1e999',
  '1e300',
  '""',
  '"\\u001b[2J\\u0007"',
  '[]',
  '{}',
  '[null]',
  '[[]]',
  '{"length":9}',
  '{"__proto__":{"order":[]}}',
  '"__proto__"',
  '"constructor"',
  '["a","a","b","a"]',
  '{"a":null}',
  JSON.stringify('x'.repeat(9000)),
  deep(20_000),
  '{"order":["a"],"counts":{"__proto__":1},"more":0}',
]

/** Returns the message with one value replaced, removed or renamed. */
function mutated(random: Seeded): string {
  const message = valid()
  const places: [holder: Record<string, unknown>, key: string][] = []
  const walk = (value: unknown) => {
    if (typeof value !== 'object' || value === null) return
    for (const key of Object.keys(value)) {
      places.push([value as Record<string, unknown>, key])
      walk((value as Record<string, unknown>)[key])
    }
  }
  walk(message)
  const marks: string[] = []
  for (let i = 0; i <= random.int(3); i++) {
    const [holder, key] = random.pick(places)
    if (random.chance(0.2)) delete holder[key]
    else {
      holder[random.chance(0.1) ? '__proto__x' : key] = `odd ${marks.length}`
      marks.push(random.pick(odd))
    }
  }
  const text = JSON.stringify(message).replaceAll('__proto__x', '__proto__')
  return marks.reduce((json, mark, i) => json.replace(`"odd ${i}"`, () => mark), text)
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what it is about
const controls = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/

t.test('whatever is said is refused in one sentence, or shown without harm', async (t) => {
  const first = Number(process.env.KAS_SEED ?? 1)
  let refused = 0
  for (let seed = first; seed < first + 3000; seed++) {
    const json = mutated(new Seeded(seed))
    try {
      const message = readMessage(json)
      if (message.type !== 'update') continue
      const model = new ShownView()
      for (let i = 0; i < 2; i++) model.apply(message.update)
      const text =
        treeText(model, layout, { folds: true, isAsked: () => true }) +
        stateText(model) +
        problemsOf(model, asked) +
        notFollowedText(model, true, 0)
      if (controls.test(text) || text.length > 100_000) t.fail(`KAS_SEED=${seed}: ${json.slice(0, 500)}`)
    } catch (error) {
      refused++
      const { name, message } = error as Error
      const isFine = error instanceof BadAnswer && !controls.test(message) && message.length < 400
      if (!isFine) t.fail(`KAS_SEED=${seed}: ${name}: ${message.slice(0, 200)}: ${json.slice(0, 500)}`)
    }
  }
  t.ok(refused > 1000 && refused < 3000, `${refused} of 3000 are refused`)
  t.equal(({} as { order?: unknown }).order, undefined, 'and no object has got more than it had')
})

t.test('the commands say what is wrong, and which exit code that is', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  const wrong: [json: string, said: string][] = [
    ['null', 'it is not of the form of an answer'],
    ['{"type":"update"', 'it is no JSON'],
    ['{"type":"news","id":1}', 'type is missing or wrong'],
    ['{"type":"update","id":1}', 'update is missing or wrong'],
    ['{"type":"update","id":1,"update":{"seq":1,"at":1,"rows":{}}}', 'update.rows is missing or wrong'],
    [
      '{"type":"update","id":1,"update":{"seq":1,"at":1,"pages":{"\\u001b[2J":7}}}',
      'update.pages.?[2J is missing or wrong',
    ],
    ['{"type":"error","id":1,"code":7}', 'code is missing or wrong'],
  ]
  const commands: [argv: string[], code: number][] = [
    [['tree'], 1],
    [['get', 'Pod', '--watch'], 1],
    [['get', 'events', '-o', 'json'], 1],
    [['health'], 5],
    [['health', '--wait', '5m', '-o', 'json'], 5],
  ]
  for (const [argv, expected] of commands) {
    for (const [json, what] of wrong) {
      const { said, code } = run(...argv)
      const one = await viewer()
      await one.request(({ type }) => type === 'open')
      one.say(json)
      one.say(json)
      t.equal(await code, expected, `${argv.join(' ')}: ${json}`)
      t.equal(said.stderr, `kas ${argv[0]}: what the agent says cannot be used: ${what}\n`)
    }
  }
})

t.test('what is kept has a bound', async (t) => {
  const kept = (fill: (i: number) => object, most = 40_000) => {
    const model = new ShownView()
    for (let i = 0; i < most; i++) model.apply({ seq: i + 1, at: 1, ...fill(i) })
  }
  const page = { order: [], counts: {}, more: 0 }
  const row = (i: number, n = 'x') => ({ u: `${i}`, k: 'Pod', n })
  const event = { ns: '', about: ['Pod', '', ''], type: 'Normal', reason: '', text: '', count: 1, at: 1 }
  t.throws(() => kept((i) => ({ rows: [row(i)] })), new BadAnswer('it has more than 4000 rows'))
  t.throws(() => kept((i) => ({ events: [{ ...event, u: `${i}` }] })), new BadAnswer('it has more than 4000 events'))
  t.throws(() => kept((i) => ({ pages: { [i]: page } })), new BadAnswer('it has more than 4000 pages'))
  t.throws(() => kept((i) => ({ pages: { [i]: null } })), new BadAnswer('it has more than 4000 nodes'))
  t.throws(() => kept((i) => ({ kinds: { [i]: ['v1', 'x'] } })), new BadAnswer('it has more than 1000 kinds'))
  const facts = Array.from({ length: 16 }, () => 'x'.repeat(1000))
  t.throws(() => kept((i) => ({ rows: [{ ...row(i), f: facts }] })), /it has more than 33554432 characters/)
  t.doesNotThrow(() => kept((i) => ({ rows: [row(i % 10, 'x'.repeat(1000))] })), 'one that changes is kept once')
  t.doesNotThrow(() => kept((i) => ({ rows: [row(i)], gone: [`${i - 1}`] })), 'and one that goes is not kept')
})

t.test('a row stands once, on however many pages it is said to be', async (t) => {
  const model = new ShownView()
  const ids = Array.from({ length: 500 }, (_, i) => `${i}`)
  const rows = ids.map((u) => ({ u, k: 'Pod', n: u, c: 500 }))
  const page = { order: ids, counts: {}, more: 0 }
  model.apply({ seq: 1, at: 1, rows, pages: Object.fromEntries(['', ...ids].map((id) => [id, page])) })
  t.equal(treeText(model, layout).split('\n').length, 501)
})
