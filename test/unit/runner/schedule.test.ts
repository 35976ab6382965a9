import t from 'tap'
import { type Cost, nextToStart, unmeasured } from '../../runner/schedule.ts'

interface Job {
  readonly name: string
  readonly cost: Cost
}
const job = (name: string, wall: number, cpu: number): Job => ({ name, cost: { wall, cpu } })
const machine = { cores: 2, jobs: 6 }

const working = job('working', 20, 20)
const waiting = job('waiting', 30, 6)
const heavy = job('heavy', 60, 120)
const small = job('small', 1, 0.8)

t.test('the longest starts first', async (t) => {
  t.equal(nextToStart([small, working, waiting], [], machine), waiting)
  t.equal(nextToStart([], [], machine), undefined)
})

t.test('beside others the longest for which the cores left are enough', async (t) => {
  t.equal(nextToStart([working, small], [waiting], machine), working)
  t.equal(nextToStart([working, small], [waiting, working], machine), small)
  t.equal(nextToStart([working], [waiting, working], machine), undefined)
  t.equal(nextToStart([working], [working], machine), working)
  t.equal(nextToStart([small, working], Array(6).fill(job('idle', 9, 0)), machine), undefined, 'not more than so many')
})

t.test('one core is enough for what could use all, which then has them to itself', async (t) => {
  t.equal(nextToStart([heavy], [waiting], machine), heavy)
  t.equal(nextToStart([heavy], [waiting, working], machine), undefined)
  t.equal(nextToStart([job('more', 10, 90)], [], machine)?.name, 'more', 'also of more than there are')
  t.equal(nextToStart([small], [heavy], machine), undefined)
})

t.test('times that say nothing hold nothing up', async (t) => {
  t.equal(nextToStart([job('none', 0, 0)], [working], machine)?.name, 'none')
  t.equal(nextToStart([job('only CPU', 0, 1)], [], machine)?.name, 'only CPU')
  t.equal(nextToStart([{ name: 'new', cost: unmeasured }], [working], machine)?.name, 'new')
})

t.test('all come to their turn, on a machine of one core too', async (t) => {
  for (const cores of [1, 2, 64]) {
    const left = [heavy, waiting, working, small, job('only CPU', 0, 1)]
    const running: Job[] = []
    const ended: string[] = []
    while (left.length + running.length > 0) {
      const next = nextToStart(left, running, { cores, jobs: 2 })
      if (next) running.push(...left.splice(left.indexOf(next), 1))
      else ended.push((running.shift() as Job).name)
    }
    t.equal(ended.length, 5, `${cores} cores`)
  }
})
