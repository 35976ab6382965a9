import type { SourceBlock } from './schema.ts'

/** As rows have it: `branch main`; empty: the default branch. */
export function refText(ref: SourceBlock['ref']): string {
  const [[kind, name] = []] = Object.entries(ref ?? {})
  return kind && name ? `${kind} ${name}` : ''
}
