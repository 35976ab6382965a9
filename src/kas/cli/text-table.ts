/** What agents say of themselves is shown, but does not steer the terminal. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what it is about
const controls = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g

/** Texts in columns, the first row as their heads; each line with its end. */
export function textTable(rows: readonly (readonly (string | number)[])[]): string {
  const cells = rows.map((row) => row.map((cell) => printable(String(cell))))
  const widths = cells[0]?.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0))) ?? []
  const line = (row: readonly string[]) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')
  return cells.map((row) => `${line(row).trimEnd()}\n`).join('')
}

/** JSON with what would steer the terminal escaped: it reads as the same. */
export function printableJson(value: unknown, indent?: number): string {
  const escaped = (sign: string) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`
  return JSON.stringify(value, undefined, indent).replaceAll(controls, (sign) => (sign === '\n' ? sign : escaped(sign)))
}

export function printable(text: string): string {
  return text.replaceAll(controls, '?')
}
