import { KasError } from '../../lib/errors.ts'
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
export function listenFailure(error: unknown, { file, key, listen }: ListenPlace): unknown {
  const code = codeOf(error)
  const problem = listen.network === 'unix' ? socketProblem(code, listen.address, error) : tcpProblem(code, listen)
  if (problem === undefined) return error
  return new KasError({ code: 'SETTINGS_INVALID', file, problems: [`${key}: ${problem}`] }, { cause: error })
}

function tcpProblem(code: string, { network, address }: Listen): string | undefined {
  const options = parseListenAddress(network, address)
  if (!options || !('port' in options)) return undefined
  const { port, host = '' } = options
  switch (code) {
    case 'EADDRINUSE':
      return `port ${port} is taken: end who listens there (ss -ltnp 'sport = :${port}' names it), or choose another port`
    case 'EACCES':
      return `port ${port} is not for this user: choose one from 1024 on, or give kas CAP_NET_BIND_SERVICE`
    case 'EADDRNOTAVAIL':
      return `${host} is no address of this machine: name one that it has, or ":${port}" for all of them`
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `no address is known for the name ${host}: write an address of this machine, or ":${port}" for all of them`
    case 'EAFNOSUPPORT':
      return `this machine has no addresses of the family of ${address}: choose network tcp4 or tcp6, or another address`
    default:
      return undefined
  }
}

function socketProblem(code: string, path: string, error: unknown): string | undefined {
  switch (code) {
    case 'EADDRINUSE':
    case 'ENAMETOOLONG':
      return `${(error as Error).message}: end it or take it away, or choose another path`
    case 'ENOENT':
    case 'ENOTDIR':
      return `the folder of ${path} does not exist: make it, or choose another path`
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return `this user may not make a file beside ${path}: allow it, or choose another folder`
    default:
      return undefined
  }
}

/** An error of libp2p has node's code in its text alone. */
function codeOf(error: unknown): string {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown }
  if (typeof code === 'string') return code
  return /\blisten (E[A-Z]+):/.exec(String(message))?.[1] ?? ''
}
