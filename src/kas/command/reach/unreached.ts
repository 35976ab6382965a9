/** Time without an answer after which a command says what it waits for. ms */
export const noticeMs = 1000

/** Faults that keep a command from reaching kas. */
export type UnreachedKind =
  /** no program listens at the port */
  | 'port'
  /** the name of the host is unknown */
  | 'name'
  /** there is no route to the address */
  | 'route'
  /** the certificate, or TLS itself, is refused */
  | 'tls'
  /** http for a TLS server, or https for one without TLS */
  | 'scheme'
  /** kas answered, and does not let the caller in */
  | 'caller'
  /** another program than kas answered */
  | 'server'
  /** connected without an answer so far; or the connection was lost */
  | 'silent'
  /** the proxy in front of kas does not reach it, or kas cannot answer now */
  | 'away'

/** Faults that may pass by themselves: a command with time left asks again. */
const passing: ReadonlySet<UnreachedKind> = new Set(['silent', 'away'])

/** Address that a command asks. */
export interface Place {
  readonly url: URL
  /** source of the address, such as `FILE, context prod`; empty: unknown */
  readonly named: string
  /** variable that names a proxy, which commands do not use */
  readonly proxy?: string | undefined
}

interface UnreachedOptions extends ErrorOptions {
  readonly status?: number
  readonly isReported?: boolean
}

/** kas was not reached: the text says what happened, where, and what to do. */
export class Unreached extends Error {
  override readonly name = 'Unreached'
  readonly kind: UnreachedKind
  /** of HTTP; undefined: there was no answer */
  readonly status: number | undefined
  /** true: the reason was printed during the wait, and the text says only that the time is over */
  readonly isReported: boolean

  constructor(kind: UnreachedKind, text: string, options: UnreachedOptions = {}) {
    super(text, options)
    const { status, isReported = false } = options
    this.kind = kind
    this.status = status
    this.isReported = isReported
  }

  /** True if another attempt may help. */
  get isPassing(): boolean {
    return passing.has(this.kind)
  }
}

/** Removes durations: reasons that differ only in them are the same, and are printed once. */
export function lastingReason(text: string): string {
  return text.replaceAll(/\bfor (?:at least )?\d+ s\b/g, '')
}

/** Host and port, with their source. */
export function placeText({ url, named }: Place): string {
  return named === '' ? url.host : `${url.host} (${named})`
}
