import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface TextTable {
  readonly title: string
  /** cells of each row */
  readonly rows: readonly (readonly string[])[]
}

/** Reads the tables of `rows/<name>.txt`: a line `# title` begins one, every other line is a row of so many cells. */
export function readTables(name: string, columns: number): TextTable[] {
  const text = readFileSync(join(import.meta.dirname, `rows/${name}.txt`), 'utf8')
  return text
    .split(/^# /m)
    .slice(1)
    .map((table) => {
      const [title = '', ...lines] = table.split('\n').filter((line) => line !== '')
      return { title, rows: lines.map((line) => cellsOf(line, columns)) }
    })
}

function cellsOf(line: string, columns: number): string[] {
  const cells = line.split(' | ')
  if (cells.length !== columns) throw new Error(`not ${columns} cells: ${line}`)
  return cells
}
