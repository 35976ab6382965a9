import { endsSoon, instantText } from '../../../../lib/token-end.ts'
import { warning } from './warning.ts'

/**
 * Warns users that their token ends soon: kubectl prints the header `Warning`, each text once per command.
 *
 * @param endsAt - ms since 1970; undefined: it never ends, or the end is unknown
 * @param now - ms since 1970
 */
export function tokenEndWarning(endsAt: number | undefined, now: number): string | undefined {
  if (!endsSoon(endsAt, now)) return undefined
  return warning(`your token ends at ${instantText(endsAt)}: ask for a new one (kas user rotate) before`)
}
