import { endsSoon, instantText } from '../../../../lib/token-end.ts'
import { warning } from './warning.ts'

/**
 * Says to people that their token ends soon: kubectl prints the header `Warning`, each text once for a command.
 *
 * @param endsAt - undefined: never, or nobody knows. @param now - both in ms since 1970
 */
export function tokenEndWarning(endsAt: number | undefined, now: number): string | undefined {
  if (!endsSoon(endsAt, now)) return undefined
  return warning(`your token ends at ${instantText(endsAt)}: ask for a new one (kas user rotate) before`)
}
