import t from 'tap'
import type { AccessLine } from '../../../../src/kas/access-log/access-line.ts'
import { ClassQueues } from '../../../../src/kas/access-log/class-queues.ts'
import { type LineClass, lineClasses } from '../../../../src/kas/config/access-log.ts'

const time = '2026-11-26T00:00:00.000Z'

function ground(bytes = 2000) {
  let now = Date.parse(time)
  const counts = { written: 0, lost: 0, made: 0 }
  const maxBytes = Object.fromEntries(lineClasses.map((name) => [name, bytes])) as Record<LineClass, number>
  const queues = new ClassQueues(
    {
      now: () => now,
      onLine: () => undefined,
      onTaken: () => void counts.written++,
      onLost: () => void counts.lost++,
    },
    { entry: 'kas-0', maxBytes },
  )
  const add = (name: LineClass, source: string, verb: string) =>
    queues.add(name, source, () => {
      counts.made += 1
      return { time, event: 'end', class: name, verb, entry: 'kas-0' }
    })
  const rest = () => {
    const lines: AccessLine[] = []
    for (let text = queues.take(1); text; text = queues.take(1)) lines.push(JSON.parse(text))
    return lines
  }
  const pass = (ms: number) => {
    now += ms
  }
  return { queues, add, rest, counts, pass }
}

t.test('a flood of refusals and reads beside one exec: its line is there, and first', async (t) => {
  const { add, rest, counts } = ground()
  for (let i = 0; i < 50_000; i++) {
    add('refusal', `address ${i % 100}`, 'get')
    add('read', 'user 1', 'list')
  }
  add('exec', 'user 2', 'create')
  add('write', 'user 2', 'delete')
  const lines = rest()
  t.strictSame(
    lines.slice(0, 2).map((line) => line.class),
    ['write', 'exec'],
  )
  const told = lines.filter(({ event }) => event === 'lost').reduce((sum, { count = 0 }) => sum + count, 0)
  const ends = lines.filter(({ event }) => event === 'end').length
  t.equal(told + ends, 100_002, 'each is there, or counted')
  t.equal(counts.lost, told)
  t.ok(counts.made < 1000, 'and no line was made for nothing')
})

t.test('callers take turns, and none loses a line for another who has more', async (t) => {
  const { add, rest } = ground(4000)
  for (let i = 0; i < 100; i++) add('write', 'user 1', `greedy-${i}`)
  for (let i = 0; i < 3; i++) add('write', 'user 2', `modest-${i}`)
  const verbs = rest().flatMap(({ verb }) => verb ?? [])
  for (let i = 0; i < 3; i++) t.ok(verbs.indexOf(`modest-${i}`) >= 0 && verbs.indexOf(`modest-${i}`) < 8, `modest-${i}`)
})

t.test('what was lost is told once there is room: how many, of which class, and since when', async (t) => {
  const { add, rest, pass } = ground()
  for (let i = 0; i < 10; i++) add('write', 'user 1', 'x'.repeat(100))
  pass(1000)
  for (let i = 0; i < 90; i++) add('write', 'user 1', 'x'.repeat(100))
  pass(9000)
  const [told, ...lines] = rest()
  t.match(told, {
    event: 'lost',
    class: 'write',
    count: 100 - lines.length,
    entry: 'kas-0',
    time: '2026-11-26T00:00:10.000Z',
  })
  t.ok(Date.parse(told?.since ?? '') <= Date.parse(time) + 1000)
  add('write', 'user 1', 'y')
  t.match(rest(), [{ event: 'end', verb: 'y' }], 'and once')
})

t.test('100,000 lines a second of many callers', async (t) => {
  const { add, counts, rest } = ground(1024 * 1024)
  const began = performance.now()
  for (let i = 0; i < 100_000; i++) add('write', `user ${i % 1000}`, 'update')
  t.comment(`${Math.round(performance.now() - began)} ms`)
  const ends = rest().filter(({ event }) => event === 'end').length
  t.equal(ends + counts.lost, 100_000)
})
