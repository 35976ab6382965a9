import { parseDuration } from '../../lib/config.ts'
import { UsageError } from './command.ts'

/** The longest time that an option may name. ms */
const maxWaitMs = 24 * 3_600_000

/** Parses a time of an option: `90s`, `5m`, `1h`. @returns ms. @throws UsageError */
export function readWaitTime(name: string, text: string): number {
  const ms = parseDuration(text) ?? 0
  if (ms > 0 && ms <= maxWaitMs) return ms
  throw new UsageError(`--${name} ${text}: allowed is a time such as 90s, 5m or 1h, at most 24h`)
}
