import { readTables } from './row-text.ts'

/**
 * Who has confirmed a row. `captured N`: stock programs of 16.1 and 16.5, watched, section N of what was captured.
 * `defined`: upstream's definitions, documents or clients say so, no stock binary was seen to. `unsure`: nobody yet.
 */
const confirmations = ['captured 1', 'captured 2', 'captured 3', 'captured 4', 'defined', 'unsure'] as const
export type Confirmed = (typeof confirmations)[number]

/** One thing of the wire that others rely on. */
export interface WireRow {
  /** what a `// wire:` comment above a test names it by; never changes */
  readonly id: string
  /** where the reference has it: `W` is doc/reference/tunnel-protocol.md, `G` doc/reference/gitlab-contract.md */
  readonly source: string
  readonly confirmed: Confirmed
  /** Markdown, one line */
  readonly what: string
}

export interface WireSection {
  readonly title: string
  readonly rows: readonly WireRow[]
}

/** The sections of `rows/<name>.txt`, each row a line: `id | source | confirmed | what`. */
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
