import { execFileSync } from 'node:child_process'
import { cpus } from 'node:os'
import { median } from './programs.ts'

/** a value for each round, by figure */
export type Row = Record<string, number[]>

export function addTo(row: Row, figures: Readonly<Record<string, number>>): void {
  for (const [name, value] of Object.entries(figures)) {
    row[name] ??= []
    row[name].push(value)
  }
}

/**
 * Prints a line for each figure with a column for each row: medians and the spread over the rounds; then all as JSON.
 */
export function report(bench: string, rows: Readonly<Record<string, Row>>): void {
  const columns = Object.keys(rows)
  const figures = [...new Set(Object.values(rows).flatMap((row) => Object.keys(row)))]
  const print = (cells: string[]) => console.log(cells.map((cell, i) => cell.padEnd(i === 0 ? 44 : 26)).join(''))
  print(['median [min to max]', ...columns])
  for (const figure of figures) print([figure, ...columns.map((column) => shown(rows[column]?.[figure]))])
  const results = Object.fromEntries(
    figures.map((figure) => [
      figure,
      Object.fromEntries(
        columns.flatMap((column) => {
          const values = rows[column]?.[figure]
          return values ? [[column, round(median(values))]] : []
        }),
      ),
    ]),
  )
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim()
  console.log(JSON.stringify({ bench, commit, node: process.version, cpus: cpus().length, results }))
}

function shown(values: readonly number[] | undefined): string {
  if (!values) return ''
  const [middle, least, most] = [median(values), Math.min(...values), Math.max(...values)].map(round)
  return `${middle} [${least} to ${most}]`
}

function round(value: number): number {
  return Number(value.toPrecision(3))
}
