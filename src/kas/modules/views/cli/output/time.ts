import type { Time } from '../../../../command/output.ts'

/** First and last moment that RFC 3339 can write, in ms since 1970. */
const first = Date.parse('0000-01-01T00:00:00Z')
const last = Date.parse('9999-12-31T23:59:59.999Z')

/** @param ms - since 1970, from an agent. @returns undefined: it is unknown, or RFC 3339 cannot write it */
export function timeOf(ms: number | undefined): Time | undefined {
  return ms !== undefined && ms >= first && ms <= last ? new Date(ms).toISOString() : undefined
}
