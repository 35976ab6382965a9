import { KasError } from '../../lib/errors.ts'
import { listenProblem } from '../../lib/listen-problem.ts'
import type { Listen } from '../config/listen-address.ts'
import { parseListenAddress } from '../config/listen-address.ts'

/** A place in the configuration that says where to listen. */
export interface ListenPlace {
  /** of the configuration */
  readonly file: string
  /** in it: `agent.listen.address` */
  readonly key: string
  readonly listen: Listen
}

/** What listening threw as SETTINGS_INVALID that names the key and the next step, if one is known; else as it is. */
export function listenFailure(error: unknown, { file, key, listen: { network, address } }: ListenPlace): unknown {
  const at = parseListenAddress(network, address)
  const problem = at && listenProblem(error, { at, address, program: 'kas' })
  if (problem === undefined) return error
  return new KasError({ code: 'SETTINGS_INVALID', file, problems: [`${key}: ${problem}`] }, { cause: error })
}
