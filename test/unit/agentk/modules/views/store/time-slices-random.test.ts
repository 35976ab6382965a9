import t from 'tap'
import { sliceMs, TimeSlices } from '../../../../../../src/agentk/modules/views/store/time-slices.ts'
import { Seeded } from '../../../../../support/seeded.ts'
import { WorkClock } from '../../../../../support/work-clock.ts'

t.test('1,000 sources are served alike, however much some ask for', { timeout: 60_000 }, async (t) => {
  const clock = new WorkClock()
  const turns = new TimeSlices(clock)
  const worked = new Map<string, number>()
  const run = (source: string, steps: number, onDone: () => void = () => {}) => {
    let left = steps
    const step = () => {
      clock.work(0.5)
      worked.set(source, (worked.get(source) ?? 0) + 1)
      return --left > 0
    }
    return turns.run(source, step, onDone)
  }
  const greedy = Array.from({ length: 999 }, (_, i) => `greedy ${i}`)
  for (let jobs = 0; jobs < 5; jobs++) for (const source of greedy) run(source, 1000)
  let isDone = false
  const began = clock.now()
  run('modest', 4, () => {
    isDone = true
  })
  while (!isDone) clock.turn()
  const roundMs = 1000 * sliceMs
  t.ok(clock.now() - began <= 1.5 * roundMs, `one round later, not ${(clock.now() - began) / roundMs}`)
  const until = clock.now() + 5 * roundMs
  const before = new Map(worked)
  while (clock.now() < until) clock.turn()
  const shares = greedy.map((source) => (worked.get(source) ?? 0) - (before.get(source) ?? 0))
  const [least, most] = [Math.min(...shares), Math.max(...shares)]
  t.ok(most <= 2 * least, `${least} to ${most} steps each`)
})

t.test('each job that is not ended is done once, and nothing is kept', { timeout: 60_000 }, async (t) => {
  const random = Seeded.for(t)
  for (let round = 0; round < 60; round++) {
    const clock = new WorkClock()
    const turns = new TimeSlices(clock)
    const sources = Array.from({ length: random.pick([1, 3, 1000]) }, (_, i) => `s${i}`)
    let jobs = 0
    let nested = 0
    /** jobs that are neither done nor ended, with the function that ends each; undefined: the job is about to begin */
    const open = new Map<number, (() => void) | undefined>()
    const faults: string[] = []
    const endSome = () => {
      const [id] = random.shuffled([...open.keys()].slice(0, 20))
      const end = id === undefined ? undefined : open.get(id)
      if (id === undefined || !end) return
      open.delete(id)
      end()
    }
    const begin = () => {
      const id = jobs++
      let left = random.int(random.chance(0.1) ? 300 : 12)
      const step = () => {
        if (!open.has(id)) faults.push(`${id} goes on after its end`)
        clock.work(random.fraction())
        if (random.chance(0.01) && nested++ < 300) begin()
        if (random.chance(0.01)) endSome()
        return left-- > 0
      }
      open.set(id, undefined)
      const end = turns.run(random.pick(sources), step, () => {
        if (!open.delete(id)) faults.push(`${id} is done twice, or after its end`)
        if (random.chance(0.05) && nested++ < 300) begin()
      })
      if (open.has(id)) open.set(id, end)
    }
    for (let i = 0; i < 400; i++) {
      const what = random.int(4)
      if (what < 2) begin()
      else if (what < 3) clock.turn()
      else if (random.chance(0.5)) endSome()
    }
    for (let i = 0; turns.size > 0 && i < 100_000; i++) clock.turn()
    if (!t.strictSame(faults, [])) return
    if (!t.equal(open.size, 0, `round ${round}: none waits for ever`)) return
    clock.turn()
    if (!t.equal(clock.pending, 0, 'no timer is left')) return
  }
})
