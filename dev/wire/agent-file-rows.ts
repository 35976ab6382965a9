import type { WireSection } from './row.ts'
import { readTables } from './row-text.ts'

/** A key, where `[]` is one element of a list. A wrong value is absent where kas leaves the judgement to GitLab. */
export type AgentFileKey = readonly [path: string, good: unknown, wrong?: unknown]

/** `rows/agent-file-keys.txt`: `path | good | wrong`, values as JSON, `any` where none is wrong. */
const tables = readTables('agent-file-keys', 3)

/** All keys of an agent's configuration file. */
export const agentFileKeys: readonly AgentFileKey[] = tables
  .flatMap(({ rows }) => rows)
  .map(([path = '', good = '', wrong = '']) =>
    wrong === 'any' ? [path, JSON.parse(good)] : [path, JSON.parse(good), JSON.parse(wrong)],
  )

export const agentFileKeyRows: WireSection = {
  title: 'Agents’ configuration file: keys',
  rows: agentFileKeys.map(([path, good, wrong]) => ({
    id: `file-key.${path}`,
    source: 'W 7.2',
    confirmed: 'defined',
    what: `\`${path}\`: ${shown(good)}${wrong === undefined ? ', any value' : `, not ${shown(wrong)}`}`,
  })),
}

function shown(value: unknown): string {
  return `\`${JSON.stringify(value)}\``
}
