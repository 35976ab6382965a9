import t, { type Test } from 'tap'
import { type PlantedBug, plantedBugs } from './planted-bugs.ts'
import { runSeeds } from './run-seeds.ts'
import { type SimulationOptions, simulate } from './simulation.ts'

/** Smaller than `npm run simulate`, so that 200 seeds take under a minute on two cores. */
const size: SimulationOptions = { replicas: 5, agents: 10, faults: 20, callsPerSecond: 2 }
const fewestFaults = 20
const jobs = 2
const seedsPerBug = 500
/** limit on a busy machine */
const timeoutMs = 200_000

t.setTimeout(timeoutMs)

function ending(t: Test): { signal: AbortSignal } {
  const controller = new AbortController()
  t.teardown(() => controller.abort())
  return { signal: controller.signal }
}

t.test('a seed is the same world each time, and another seed another one', { timeout: timeoutMs }, async (t) => {
  const [first, again, other] = [await simulate(7, size), await simulate(7, size), await simulate(8, size)]
  t.equal(first.trace, again.trace)
  t.same(first.faults, again.faults)
  t.not(first.trace, other.trace)
})

t.test('200 worlds break no rule', { timeout: timeoutMs }, async (t) => {
  t.comment('about a minute without a word follows') // otherwise the runner takes the silence for the end of the file
  const totals = await runSeeds({ from: 1, seeds: 200, jobs }, size, ending(t))
  const { failed } = totals
  if (failed) t.comment(`npm run simulate -- --seeds 1 --from ${failed.seed} --agents 10 --faults 20 --calls 2`)
  t.same(failed?.violation, undefined)
  t.equal(totals.seeds, 200)
  t.ok(totals.fewestFaults >= fewestFaults, `${totals.fewestFaults} faults`)
  t.ok(totals.calls > 200 * 100, `${totals.calls} calls`)
})

for (const [bug, rules] of Object.entries({
  'pull-dropped': ['equal tables after quiet'],
  'instance-ignored': ['one writer per row', 'equal tables after quiet'],
  'two-writers': ['one writer per row'],
  'holder-forwards': ['no second hop'],
  'unsafe-replayed': ['no unsafe call delivered twice'],
} satisfies Record<PlantedBug, string[]>)) {
  t.test(`${plantedBugs[bug as PlantedBug]}: ${bug} is found`, { timeout: timeoutMs }, async (t) => {
    const range = { from: 1, seeds: seedsPerBug, jobs: 1 }
    const { failed } = await runSeeds(range, { ...size, bug: bug as PlantedBug }, ending(t))
    t.comment(`seed ${failed?.seed}: ${failed?.violation?.detail}`)
    t.ok(rules.includes(failed?.violation?.rule ?? ''), failed?.violation?.rule ?? 'not found')
  })
}
