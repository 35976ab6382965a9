/**
 * `npm run simulate -- --seeds N --from S`: runs N worlds from seed S on, up to the first that breaks a rule. A seed
 * replays exactly: `--seeds 1 --from <seed>`. `--bug NAME` plants a mistake, which must be found.
 */
import { availableParallelism } from 'node:os'
import { parseArgs } from 'node:util'
import { isPlantedBug, plantedBugs } from './planted-bugs.ts'
import { runSeeds } from './run-seeds.ts'
import { fullSize, type SimulationResult } from './simulation.ts'

/** interval of progress lines on stderr */
const progressEverySeeds = 100

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '200' },
    from: { type: 'string', default: '1' },
    jobs: { type: 'string', default: String(availableParallelism()) },
    bug: { type: 'string' },
    agents: { type: 'string', default: String(fullSize.agents) },
    faults: { type: 'string', default: String(fullSize.faults) },
    calls: { type: 'string', default: String(fullSize.callsPerSecond) },
  },
})

const number = (name: Exclude<keyof typeof values, 'bug'>) => {
  const value = Number(values[name])
  if (!Number.isInteger(value) || value < 0) throw new Error(`--${name}: found ${values[name]}, allowed: a number`)
  return value
}
const { bug } = values
if (bug !== undefined && !isPlantedBug(bug)) {
  throw new Error(`--bug: found ${bug}, allowed: ${Object.keys(plantedBugs).join(', ')}`)
}
const seeds = number('seeds')
const size = {
  ...fullSize,
  agents: number('agents'),
  faults: number('faults'),
  callsPerSecond: number('calls'),
  stacks: seeds === 1,
  ...(bug ? { bug } : {}),
}
const began = performance.now()
const jobs = seeds === 1 ? 1 : number('jobs')
let done = 0
const onResult = () => {
  if (++done % progressEverySeeds === 0) process.stderr.write(`${done} seeds, ${secondsSince(began)} s\n`)
}
const totals = await runSeeds({ from: number('from'), seeds, jobs }, size, { onResult })
const seconds = secondsSince(began)
const { failed } = totals
if (failed) printFailure(failed)
const end = bug ? `${bug} ${failed ? 'found' : 'NOT FOUND'}` : failed ? 'FAILED' : 'no rule broken'
console.log(
  `${totals.seeds} seeds in ${seconds} s (${jobs} at once; CPU of each: ${perSeed(totals.userMs)} s user, ` +
    `${perSeed(totals.systemMs)} s system): ${end}`,
)
if (Number.isFinite(totals.shortestMs)) {
  console.log(
    `each: ${size.replicas} replicas, ${size.agents} agents, ${(totals.shortestMs / 1000).toFixed(0)} virtual seconds, ` +
      `at least ${totals.fewestFaults} faults; all: ${totals.faults} faults, ${totals.calls} calls, ${totals.events} events`,
  )
}
process.exitCode = Boolean(failed) === Boolean(bug) ? 0 : 1

function secondsSince(began: number): string {
  return ((performance.now() - began) / 1000).toFixed(1)
}

function perSeed(ms: number): string {
  return (ms / 1000 / totals.seeds).toFixed(2)
}

function printFailure({ seed, violation, faults }: SimulationResult): void {
  console.log(`seed ${seed}: "${violation?.rule}" is broken at ${violation?.atMs.toFixed(1)} ms`)
  console.log(`  ${violation?.detail}`)
  for (const { atMs, kind, forMs } of faults) {
    console.log(`  ${atMs.toFixed(0)} ms: ${kind}${forMs > 0 ? `, ${forMs.toFixed(0)} ms` : ''}`)
  }
  const { agents, faults: count, calls } = values
  const same = `--agents ${agents} --faults ${count} --calls ${calls}${bug ? ` --bug ${bug}` : ''}`
  console.log(`again: npm run simulate -- --seeds 1 --from ${seed} ${same}`)
}
