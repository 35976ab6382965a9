import { KasError } from '../../lib/errors.ts'
import { listenProblem } from '../../lib/listen-problem.ts'
import type { Listen } from '../config/listen-address.ts'
import { parseListenAddress } from '../config/listen-address.ts'

/** A key of the configuration that names an address to listen on. */
export interface ListenPlace {
  /** path of the configuration file */
  readonly file: string
  /** key in the file: `agent.listen.address` */
  readonly key: string
  readonly listen: Listen
}

/**
 * Returns SETTINGS_INVALID with the key and the next step for a known error of listening; any other error unchanged.
 */
export function listenFailure(error: unknown, { file, key, listen: { network, address } }: ListenPlace): unknown {
  const at = parseListenAddress(network, address)
  const problem = at && listenProblem(error, { at, address, program: 'kas' })
  if (problem === undefined) return error
  return new KasError({ code: 'SETTINGS_INVALID', file, problems: [`${key}: ${problem}`] }, { cause: error })
}
