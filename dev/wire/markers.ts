import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** A comment `// wire: id, id` in a test file: the test below it proves these rows. */
export interface Marker {
  /** ids; one that ends with `*` means all rows with that beginning */
  readonly ids: readonly string[]
  readonly file: string
  /** name as in the source, with its `${}`; empty: the statement below has no test of its own, the whole file is one */
  readonly test: string
}

export function readMarkers(root: string): Marker[] {
  const files = globSync('test/**/*.ts', { cwd: root }).sort()
  return files.flatMap((file) => markersIn(file, readFileSync(join(root, file), 'utf8')))
}

export function markersIn(file: string, text: string): Marker[] {
  const lines = text.split('\n')
  return lines.flatMap((line, i) => {
    const [, indent = '', ids] = /^( *)\/\/ wire: (.+)$/.exec(line) ?? []
    return ids === undefined ? [] : [{ ids: ids.split(', '), file, test: testBelow(lines.slice(i + 1), indent) }]
  })
}

/** Returns the name of the first test in the statement at the beginning of these lines, also in a loop over tests. */
function testBelow(lines: readonly string[], indent: string): string {
  const end = lines.findIndex((line) => line.startsWith(`${indent}}`) && !line.endsWith('{'))
  const statement = lines.slice(0, end === -1 ? undefined : end).join('\n')
  const [, , literal, variable] = /\btest\(\s*(?:(['"`])(.*?)(?<!\\)\1|(\w+))/.exec(statement) ?? []
  return literal ?? (variable === undefined ? '' : `\${${variable}}`)
}

export const holds = (marker: Marker, id: string): boolean =>
  marker.ids.some((own) => own === id || (own.endsWith('*') && id.startsWith(own.slice(0, -1))))
