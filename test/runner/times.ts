import { readFileSync, writeFileSync } from 'node:fs'
import type { Cost } from './schedule.ts'

/** Costs of what has been run, by its name, as they lie beside the tests. */
export type Times = ReadonlyMap<string, Cost>

/** none if there is no such file */
export function readTimes(path: string): Times {
  try {
    return new Map(Object.entries(JSON.parse(readFileSync(path, 'utf8')) as Record<string, Cost>))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return new Map()
    throw error
  }
}

/** A line each, by name. */
export function writeTimes(path: string, times: Times): void {
  const lines = [...times]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, { wall, cpu }]) => `  ${JSON.stringify(name)}: { "wall": ${wall}, "cpu": ${cpu} }`)
  writeFileSync(path, `{\n${lines.join(',\n')}\n}\n`)
}

/**
 * `old` with what was `measured` now, without what is not among `known` any more. A time that is about what it was
 * stays as it is written.
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
