import { printable } from '../../lib/printable.ts'

/** Returns texts in columns; the first row has the heads, which may be left out. Each line has its end. */
export function textTable(rows: readonly (readonly (string | number)[])[], hasHeaders = true): string {
  const cells = rows.slice(hasHeaders ? 0 : 1).map((row) => row.map((cell) => printable(String(cell))))
  const widths = cells[0]?.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0))) ?? []
  const line = (row: readonly string[]) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')
  return cells.map((row) => `${line(row).trimEnd()}\n`).join('')
}
