import { readTables } from './row-text.ts'

/**
 * The confirmation of a row. `captured N`: observed from stock programs of 16.1 and 16.5, in section N of the capture.
 * `defined`: stated by upstream's definitions, documents or clients, and not observed. `unsure`: not confirmed.
 */
const confirmations = ['captured 1', 'captured 2', 'captured 3', 'captured 4', 'defined', 'unsure'] as const
export type Confirmed = (typeof confirmations)[number]

/** One promise of the wire on which others rely. */
export interface WireRow {
  /** name of the row in a `// wire:` comment above a test; never changes */
  readonly id: string
  /** place in the reference: `W` is doc/reference/tunnel-protocol.md, `G` doc/reference/gitlab-contract.md */
  readonly source: string
  readonly confirmed: Confirmed
  /** Markdown, one line */
  readonly what: string
}

export interface WireSection {
  readonly title: string
  readonly rows: readonly WireRow[]
}

/** Reads the sections of `rows/<name>.txt`, each row a line: `id | source | confirmed | what`. */
export function readSections(name: string): WireSection[] {
  return readTables(name, 4).map(({ title, rows }) => ({
    title,
    rows: rows.map(([id = '', source = '', confirmed = '', what = '']) => ({
      id,
      source,
      confirmed: confirmedOf(confirmed),
      what,
    })),
  }))
}

export function confirmedOf(text: string): Confirmed {
  const confirmed = confirmations.find((one) => one === text)
  if (confirmed === undefined) throw new Error(`none of ${confirmations.join(', ')}: ${text}`)
  return confirmed
}
