import { holds, type Marker, readMarkers } from './markers.ts'
import { type MissingRow, notHeld, notThere } from './missing-rows.ts'
import type { Confirmed, WireRow, WireSection } from './row.ts'
import { wireSections } from './wire-sections.ts'

const confirmation = (confirmed: Confirmed): string =>
  confirmed === 'defined' ? 'no' : confirmed === 'unsure' ? '**no, unsure**' : confirmed

const cell = (text: string): string => text.replaceAll('|', '\\|')
const line = (...cells: string[]): string => `| ${cells.map(cell).join(' | ')} |`

/** Returns doc/reference/wire.md, made from the rows and the markers of this tree. */
export function wireTable(root: string): string {
  const sections = wireSections(root)
  const markers = readMarkers(root)
  const parts = [
    introduction(sections.flatMap(({ rows }) => rows)),
    ...sections.map((section) => sectionTable(section, markers)),
    missingTable('Not held by a test yet', notHeld),
    missingTable('Not there yet', notThere),
  ]
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`
}

function introduction(rows: readonly WireRow[]): string {
  const count = (...some: Confirmed[]) => rows.filter(({ confirmed }) => some.includes(confirmed)).length
  const unseen = count('defined', 'unsure')
  return `# The wire

What GitLab, its agents, kubectl, browsers and operators' tools rely on, row by row, each with the tests that hold it.
\`npm run wire\` writes this file: from the rows in \`dev/wire\`, and from comments \`// wire: <id>\` above tests. A row
without a test, or a test that names no row, fails \`test/ground/wire.test.ts\`.

"Reference": W is [tunnel-protocol](tunnel-protocol.md), G is [gitlab-contract](gitlab-contract.md).
"Stock binary" says whether a stock agentk or kas (16.1, 16.5) was seen to do it ([captured](captured.md)):
\`captured 1\` between agent and kas, \`2\` between kas and GitLab, \`3\` on 8154, \`4\` under load and
by kubectl; \`no\`: upstream's definitions, documents or clients say so; \`no, unsure\`: nobody has confirmed it.

Tests of \`test/peers/agentk-go*\` need Go, others ruby, kubectl or a real API server: where those are absent, \`npm test\`
skips them and names them at its end.

${rows.length} rows: ${rows.length - unseen} that a stock binary has confirmed, ${count('defined')} by upstream's word alone, ${count('unsure')} unsure.`
}

function sectionTable({ title, rows }: WireSection, markers: readonly Marker[]): string {
  const head = `## ${title}\n\n| What | Reference | Tested by | Stock binary | Id |\n|---|---|---|---|---|`
  const body = rows.map(({ id, what, source, confirmed }) =>
    line(what, source, testsOf(id, markers), confirmation(confirmed), `\`${id}\``),
  )
  return [head, ...body].join('\n')
}

function testsOf(id: string, markers: readonly Marker[]): string {
  const tests = markers
    .filter((marker) => holds(marker, id))
    .map(({ file, test }) => (test === '' ? `\`${file}\`` : `\`${file}\`: ${test}`))
  return [...new Set(tests)].join('<br>')
}

function missingTable(title: string, rows: readonly MissingRow[]): string {
  if (rows.length === 0) return ''
  const body = rows.map(({ id, what, source }) => line(what, source, `\`${id}\``))
  return [`## ${title}\n\n| What | Reference | Id |\n|---|---|---|`, ...body].join('\n')
}
