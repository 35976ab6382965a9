import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { agentFileKeyRows } from './agent-file-rows.ts'
import { configurationKeyRows } from './configuration-rows.ts'
import { messageRows } from './message-rows.ts'
import { readSections, type WireSection } from './row.ts'

/** a file with every key of stock kas' configuration */
const upstreamFile = 'test/support/stock-configuration/upstream.yaml'

/** Returns all rows, in the order of doc/reference/wire.md. */
export function wireSections(root: string): readonly WireSection[] {
  return [
    ...['agents', 'tunnel', 'follow', 'rails', 'gitlab', 'gitaly', 'proxy', 'operator'].flatMap(readSections),
    ...readSections('configuration'),
    configurationKeyRows(readFileSync(join(root, upstreamFile), 'utf8')),
    ...readSections('agent-file'),
    agentFileKeyRows,
    ...readSections('agentk'),
    ...readSections('otherwise'),
    messageRows,
  ]
}
