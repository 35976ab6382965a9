/** Without an answer for so long a command says what it waits for. ms */
export const noticeMs = 1000

/** Ways in which a command does not get to kas. */
export type UnreachedKind =
  /** nobody listens at the port */
  | 'port'
  /** the name of the host is not known */
  | 'name'
  /** no way leads to the address */
  | 'route'
  /** the certificate, or TLS itself, is refused */
  | 'tls'
  /** http where TLS is spoken, or https where it is not */
  | 'scheme'
  /** kas answered, and does not let the caller in */
  | 'caller'
  /** something else than kas answered */
  | 'server'
  /** connected, and no answer yet; or the connection was lost */
  | 'silent'
  /** what stands in front does not reach kas, or kas cannot answer now */
  | 'away'

/** These may pass by themselves: a command with time left asks again. */
const passing: ReadonlySet<UnreachedKind> = new Set(['silent', 'away'])

/** Where a command asks. */
export interface Place {
  readonly url: URL
  /** what names the address, such as `FILE, context prod`; empty: nothing is known */
  readonly named: string
  /** a variable that names a proxy, which commands do not use */
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
  /** of HTTP; undefined: nothing answered */
  readonly status: number | undefined
  /** the reason was said while the answer was waited for: the text says only that the time is over */
  readonly isReported: boolean

  constructor(kind: UnreachedKind, text: string, options: UnreachedOptions = {}) {
    super(text, options)
    const { status, isReported = false } = options
    this.kind = kind
    this.status = status
    this.isReported = isReported
  }

  /** To ask again may help. */
  get isPassing(): boolean {
    return passing.has(this.kind)
  }
}

/** Without how long it has lasted: reasons that differ in that alone are the same, and are said once. */
export function lastingReason(text: string): string {
  return text.replaceAll(/\bfor (?:at least )?\d+ s\b/g, '')
}

/** Host and port, with what names them. */
export function placeText({ url, named }: Place): string {
  return named === '' ? url.host : `${url.host} (${named})`
}
