/**
 * Who has confirmed a row. `captured N`: stock programs of 16.1 and 16.5, watched, section N of what was captured.
 * `defined`: upstream's definitions, documents or clients say so, no stock binary was seen to. `unsure`: nobody yet.
 */
export type Confirmed = 'captured 1' | 'captured 2' | 'captured 3' | 'captured 4' | 'defined' | 'unsure'

/** One thing of the wire that others rely on. */
export interface WireRow {
  /** what a `// wire:` comment above a test names it by; never changes */
  readonly id: string
  /** where the reference has it: `W` is wire-protocol, `G` gitlab-contract */
  readonly source: string
  readonly confirmed: Confirmed
  /** Markdown, one line */
  readonly what: string
}

export interface WireSection {
  readonly title: string
  readonly rows: readonly WireRow[]
}

export function wireSection(
  title: string,
  rows: readonly (readonly [id: string, source: string, confirmed: Confirmed, what: string])[],
): WireSection {
  return { title, rows: rows.map(([id, source, confirmed, what]) => ({ id, source, confirmed, what })) }
}
