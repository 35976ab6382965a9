/** Address on which a program tried to listen. */
export interface ListenAttempt {
  /** in the form of node:net */
  readonly at: { readonly host?: string; readonly port: number } | { readonly path: string }
  /** as configured */
  readonly address: string
  readonly program: 'kas' | 'agentk'
}

/** Says why a program cannot listen on an address, with advice. Undefined: the error itself is enough. */
export function listenProblem(error: unknown, { at, address, program }: ListenAttempt): string | undefined {
  const code = codeOf(error)
  return 'path' in at ? socketProblem(code, at.path, error) : tcpProblem(code, at, { address, program })
}

function tcpProblem(
  code: string,
  { port, host = '' }: { readonly host?: string; readonly port: number },
  { address, program }: Pick<ListenAttempt, 'address' | 'program'>,
): string | undefined {
  switch (code) {
    case 'EADDRINUSE':
      return `port ${port} is taken: end who listens there (ss -ltnp 'sport = :${port}' names it), or choose another port`
    case 'EACCES':
      return `port ${port} is not for this user: choose one from 1024 on, or give ${program} CAP_NET_BIND_SERVICE`
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

/** Code of Node's error. Errors of libp2p have it only in their text. */
function codeOf(error: unknown): string {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown }
  if (typeof code === 'string') return code
  return /\blisten (E[A-Z]+):/.exec(String(message))?.[1] ?? ''
}
