import type { Time } from '../../../../command/output.ts'

/** First and last moment that RFC 3339 can write. ms since 1970 */
const first = Date.parse('0000-01-01T00:00:00Z')
const last = Date.parse('9999-12-31T23:59:59.999Z')

/** @param ms - since 1970, as an agent says. @returns undefined: it is unknown, or none that can be written */
export function timeOf(ms: number | undefined): Time | undefined {
  return ms !== undefined && ms >= first && ms <= last ? new Date(ms).toISOString() : undefined
}
