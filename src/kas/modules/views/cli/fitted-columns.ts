import { cut } from './lines.ts'

/** Columns that may be cut to make room for those behind them, by their heads. */
const flexible: ReadonlySet<string> = new Set(['NAMESPACE', 'NAME', 'REASON'])
/** Least width of a column, beside that of its head; two spaces separate columns. */
const leastWidth = 8
const gap = 2
/** The last column that must have room: columns up to it answer the question. */
const lastNeeded = 'SINCE'

/**
 * Cuts long names and reasons, the widest column first, until a row fits up to its last needed column.
 *
 * @param table - the first row has the heads
 * @param columns - of the terminal; infinite: there is none
 */
export function fitted(table: readonly (readonly string[])[], columns: number): string[][] {
  const heads = table[0] ?? []
  const widths = heads.map((_, i) => Math.max(...table.map((row) => row[i]?.length ?? 0)))
  const needed = heads.indexOf(lastNeeded) + 1
  const widthOf = () => widths.slice(0, needed).reduce((sum, width) => sum + width + gap, -gap)
  const mayShrink = (i: number) =>
    flexible.has(heads[i] as string) && (widths[i] as number) > Math.max(leastWidth, heads[i]?.length ?? 0)
  while (widthOf() > columns) {
    const wide = heads.flatMap((_, i) => (i < needed && mayShrink(i) ? [i] : []))
    if (wide.length === 0) break
    const widest = wide.reduce((one, other) => ((widths[other] as number) > (widths[one] as number) ? other : one))
    widths[widest] = (widths[widest] as number) - 1
  }
  return table.map((row) => row.map((cell, i) => cut(cell, widths[i] as number)))
}
