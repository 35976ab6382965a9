import { readFileSync, writeFileSync } from 'node:fs'
import type { Cost } from './schedule.ts'

/** Costs of jobs by name, as the file beside the tests has them. */
export type Times = ReadonlyMap<string, Cost>

/** Reads the costs; none if the file does not exist. */
export function readTimes(path: string): Times {
  try {
    return new Map(Object.entries(JSON.parse(readFileSync(path, 'utf8')) as Record<string, Cost>))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return new Map()
    throw error
  }
}

/** Writes one line per job, sorted by name. */
export function writeTimes(path: string, times: Times): void {
  const lines = [...times]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, { wall, cpu }]) => `  ${JSON.stringify(name)}: { "wall": ${wall}, "cpu": ${cpu} }`)
  writeFileSync(path, `{\n${lines.join(',\n')}\n}\n`)
}

/**
 * Returns `old` with the costs `measured` now, without jobs outside `known`. A cost that is about the same keeps its
 * old figures.
 */
export function updated(old: Times, measured: Times, known: ReadonlySet<string>): Times {
  return new Map(
    [...new Map([...old, ...measured]).entries()]
      .filter(([name]) => known.has(name))
      .map(([name, cost]) => [name, settled(old.get(name), cost)]),
  )
}

const settled = (old: Cost | undefined, { wall, cpu }: Cost): Cost =>
  old && isAbout(old.wall, wall) && isAbout(old.cpu, cpu) ? old : { wall: rounded(wall), cpu: rounded(cpu) }

const isAbout = (old: number, now: number) => Math.abs(old - now) <= Math.max(0.3, 0.2 * old)
const rounded = (seconds: number) => Math.round(10 * seconds) / 10
