import { readTables } from './row-text.ts'

/** What the reference has and the tables have not: said here, so that nobody takes a gap for a promise. */
export interface MissingRow {
  readonly id: string
  readonly source: string
  readonly what: string
}

/** `id | source | what`, a line each. */
const [held, there] = readTables('missing', 3).map(({ rows }) =>
  rows.map(([id = '', source = '', what = '']): MissingRow => ({ id, source, what })),
)

/** kas does it, and no test says so yet. */
export const notHeld: readonly MissingRow[] = held ?? []

/** Not served by kas, and no answer that a test could hold. */
export const notThere: readonly MissingRow[] = there ?? []
