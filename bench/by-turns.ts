/**
 * Does this checkout cost what another does? `by-turns QUESTION --against FOLDER [--rounds N] [-- OPTIONS]` runs the
 * bench QUESTION of both in turn, each with its own programs. FOLDER is the other checkout, with its node_modules;
 * OPTIONS are those of QUESTION.
 */
import { execFile } from 'node:child_process'
import { join, resolve } from 'node:path'
import { parseArgs, promisify } from 'node:util'
import { refuse } from './support/options.ts'
import { median } from './support/programs.ts'

type Results = Readonly<Record<string, number>>
type Round = Record<'here' | 'there', Results>

const run = promisify(execFile)
const here = join(import.meta.dirname, '..')
/** Limit of one run, with a large cluster. ms */
const mostMs = 15 * 60_000
/** Limit of a run's output. */
const maxOutputBytes = 4 << 20

const { question, against, rounds, passed } = readWords()
const checkouts = { here, there: resolve(against) }
const commits: Record<string, string> = {}
const stopping = new AbortController()
for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.once(signal, () => stopping.abort())

const played: Round[] = []
const failures: string[] = []
for (let i = 0; i < rounds && !stopping.signal.aborted; i++) {
  try {
    played.push(await playRound(i))
  } catch (error) {
    // the other rounds are still valid
    failures.push(`round ${i + 1} of ${rounds}: ${(error as Error).message.trim()}`)
    process.stderr.write(`${failures.at(-1)}\n`)
  }
}
report()
if (failures.length > 0 || played.length === 0) process.exitCode = 1

async function playRound(i: number): Promise<Round> {
  const round: Partial<Round> = {}
  const turns = Object.entries(checkouts) as [keyof Round, string][]
  for (const [name, folder] of i % 2 === 0 ? turns : turns.toReversed()) {
    const { commit, results } = await resultsOf(folder)
    commits[name] = commit
    round[name] = results
    process.stderr.write(`round ${i + 1} of ${rounds}, ${name} (${commit})\n`)
  }
  return round as Round
}

function readWords() {
  const end = process.argv.indexOf('--')
  const args = process.argv.slice(2, end < 0 ? undefined : end)
  const passed = end < 0 ? [] : process.argv.slice(end + 1)
  try {
    const options = { against: { type: 'string' }, rounds: { type: 'string', default: '5' } } as const
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true })
    const [question, ...more] = positionals
    if (question === undefined || more.length > 0) refuse('by-turns QUESTION: one bench')
    if (values.against === undefined) refuse('--against FOLDER: another checkout of this repository')
    if (!/^[1-9]\d{0,2}$/.test(values.rounds)) refuse(`--rounds ${values.rounds}: a count from 1 on`)
    return { question, against: values.against, rounds: Number(values.rounds), passed }
  } catch (error) {
    return refuse((error as Error).message)
  }
}

async function resultsOf(folder: string): Promise<{ commit: string; results: Results }> {
  const words = [...process.execArgv, 'bench/run.ts', question, ...passed]
  const limits = { timeout: mostMs, maxBuffer: maxOutputBytes, signal: stopping.signal }
  const { stdout } = await run(process.execPath, words, { cwd: folder, ...limits })
  const { commit, results } = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '')
  return { commit, results: Object.fromEntries(figuresOf(results, '')) }
}

/** Returns each number with the names on the way to it. */
function figuresOf(value: unknown, name: string): [string, number][] {
  if (typeof value === 'number') return [[name, value]]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, below]) => figuresOf(below, name === '' ? key : `${name}, ${key}`))
}

/**
 * Prints a line for each figure of the rounds that both have ended. It has both checkouts, and the ratios of the
 * rounds: median, least and largest. The noise is the largest value of a checkout as a multiple of its least.
 */
function report(): void {
  const print = (cells: readonly string[]) =>
    console.log(
      cells
        .map((cell, i) => cell.padEnd(i === 0 ? 74 : 26))
        .join('')
        .trimEnd(),
    )
  print(['median [min to max]', `here ${commits.here ?? ''}`, `there ${commits.there ?? ''}`, 'ratio', 'noise'])
  const figures: Record<string, object> = {}
  for (const figure of new Set(played.flatMap(({ here, there }) => [...Object.keys(here), ...Object.keys(there)]))) {
    const of = (name: keyof Round) => played.flatMap((round) => round[name][figure] ?? [])
    const [own, others] = [of('here'), of('there')]
    if (own.length < played.length || others.length < played.length) {
      print([figure, ...[own, others].map((values) => (values.length > 0 ? shown(values) : 'not measured'))])
      continue
    }
    const ratios = own.map((value, i) => ratio(value, others[i] as number))
    const noise = Math.max(...[own, others].map((values) => ratio(Math.max(...values), Math.min(...values))))
    figures[figure] = { here: median(own), there: median(others), ratio: round(median(ratios)), noise: round(noise) }
    print([figure, shown(own), shown(others), shown(ratios), String(round(noise))])
  }
  for (const failure of failures) console.log(`left out: ${failure.split('\n')[0]}`)
  console.log(JSON.stringify({ bench: 'by-turns', question, rounds: played.length, commits, results: figures }))
}

/** Ratio of figures that may both be 0. */
function ratio(one: number, other: number): number {
  return one === other ? 1 : one / other
}

function shown(values: readonly number[]): string {
  const [middle, least, most] = [median(values), Math.min(...values), Math.max(...values)].map(round)
  return `${middle} [${least} to ${most}]`
}

function round(value: number): number {
  return Number(value.toPrecision(3))
}
