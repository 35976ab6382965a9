import { type Confirmed, confirmedOf, type WireSection } from './row.ts'
import { readTables } from './row-text.ts'

/**
 * Messages of the wire with the numbers of their fields, written from the reference and not from our own .proto files.
 * Full names have no `gitlab.agent.`, but for Gitaly's.
 */
export const wireMessages: readonly (readonly [name: string, source: string, confirmed: Confirmed, fields: string])[] =
  readTables('messages', 4)
    .flatMap(({ rows }) => rows)
    .map(([name = '', source = '', confirmed = '', fields = '']) => [name, source, confirmedOf(confirmed), fields])

export const messageRows: WireSection = {
  title: 'Messages',
  rows: wireMessages.map(([name, source, confirmed, fields]) => ({
    id: `message.${name}`,
    source,
    confirmed,
    what: `\`${name}\`: ${fields}`,
  })),
}
