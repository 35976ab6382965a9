import { execFileSync } from 'node:child_process'
import { cpus } from 'node:os'
import type { Row } from '../support/figures.ts'
import { median } from '../support/programs.ts'

/** Counts are added up; for times, the median and the worst are printed. */
const isTime = (figure: string) => figure.endsWith(', ms')

/** Prints a line for each figure of each scene, then all as JSON. */
export function reportWorst(bench: string, scenes: Readonly<Record<string, Row>>): void {
  const results: Record<string, Record<string, number | { median: number; worst: number }>> = {}
  for (const [scene, row] of Object.entries(scenes)) {
    const rounds = Math.max(...Object.values(row).map(({ length }) => length))
    process.stdout.write(`\n${scene} (${rounds} rounds)\n`)
    const told: (typeof results)[string] = {}
    for (const [figure, values] of Object.entries(row)) {
      told[figure] = isTime(figure)
        ? { median: Math.round(median(values)), worst: Math.round(Math.max(...values)) }
        : values.reduce((sum, value) => sum + value, 0)
      const { [figure]: value } = told
      const text = typeof value === 'object' ? `median ${value.median}, worst ${value.worst}` : `${value} in all`
      process.stdout.write(`  ${figure.padEnd(46)}${text}\n`)
    }
    results[scene] = told
  }
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim()
  process.stdout.write(`${JSON.stringify({ bench, commit, node: process.version, cpus: cpus().length, results })}\n`)
}
