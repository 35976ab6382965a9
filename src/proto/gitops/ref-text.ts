import type { SourceBlock } from './schema.ts'

/** Text of a ref for tables: `branch main`; empty: the default branch. */
export function refText(ref: SourceBlock['ref']): string {
  const [[kind, name] = []] = Object.entries(ref ?? {})
  return kind && name ? `${kind} ${name}` : ''
}
