import { readTables } from './row-text.ts'

/** A row of the reference that the tables lack: it is listed, so that no reader takes a gap for a promise. */
export interface MissingRow {
  readonly id: string
  readonly source: string
  readonly what: string
}

/** `id | source | what`, a line each. */
const [held, there] = readTables('missing', 3).map(({ rows }) =>
  rows.map(([id = '', source = '', what = '']): MissingRow => ({ id, source, what })),
)

/** Rows that kas serves, and no test proves. */
export const notHeld: readonly MissingRow[] = held ?? []

/** Rows that kas does not serve, and whose answer no test could check. */
export const notThere: readonly MissingRow[] = there ?? []
