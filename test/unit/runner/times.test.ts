import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readTimes, type Times, updated, writeTimes } from '../../runner/times.ts'

const all = (times: Times) => Object.fromEntries(times)

t.test('what was measured goes over what was, what is gone goes', async (t) => {
  const old = new Map([
    ['a', { wall: 10, cpu: 4 }],
    ['b', { wall: 2, cpu: 1 }],
    ['gone', { wall: 2, cpu: 1 }],
  ])
  const measured = new Map([
    ['a', { wall: 15.04, cpu: 4 }],
    ['new', { wall: 1.26, cpu: 0.31 }],
  ])
  t.strictSame(all(updated(old, measured, new Set(['a', 'b', 'new', 'not run']))), {
    a: { wall: 15, cpu: 4 },
    b: { wall: 2, cpu: 1 },
    new: { wall: 1.3, cpu: 0.3 },
  })
})

t.test('a time that is about what it was stays', async (t) => {
  const old = new Map([['a', { wall: 10, cpu: 0.5 }]])
  const after = (wall: number, cpu: number) => all(updated(old, new Map([['a', { wall, cpu }]]), new Set(['a']))).a
  t.strictSame(after(11.9, 0.79), { wall: 10, cpu: 0.5 })
  t.strictSame(after(12.1, 0.79), { wall: 12.1, cpu: 0.8 })
  t.strictSame(after(10, 0.11), { wall: 10, cpu: 0.1 })
})

t.test('a line each, by name', async (t) => {
  const file = join(t.testdir({}), 'times.json')
  t.equal(readTimes(file).size, 0, 'none yet')
  const times = new Map([
    ['test/b.test.ts', { wall: 1, cpu: 0.5 }],
    ['test/a.test.ts', { wall: 2, cpu: 1 }],
  ])
  writeTimes(file, times)
  const text = '{\n  "test/a.test.ts": { "wall": 2, "cpu": 1 },\n  "test/b.test.ts": { "wall": 1, "cpu": 0.5 }\n}\n'
  t.equal(readFileSync(file, 'utf8'), text)
  t.strictSame(all(readTimes(file)), all(times))
  writeTimes(file, new Map())
  t.equal(readTimes(file).size, 0)
})
