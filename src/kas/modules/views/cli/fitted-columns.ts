import { cut } from './lines.ts'

/** Columns that may be cut so that those behind them have room, by their heads. */
const flexible: ReadonlySet<string> = new Set(['NAMESPACE', 'NAME', 'REASON'])
/** A column keeps so much at least, and its head; between two of them are two spaces. */
const leastWidth = 8
const gap = 2
/** All up to this one are to have room: they answer what was asked. */
const lastNeeded = 'SINCE'

/**
 * Cuts long names and reasons so that a row as far as its last needed column fits, the widest column first.
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
