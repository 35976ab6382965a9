import { canonicalHeaderName } from './http-over-grpc.ts'

/** Headers of one connection that no proxy passes on (RFC 9110 7.6.1), canonical names. */
export const hopByHopHeaders: readonly string[] = [
  'Connection',
  'Keep-Alive',
  'Proxy-Authenticate',
  'Proxy-Authorization',
  'Proxy-Connection',
  'Te',
  'Trailer',
  'Transfer-Encoding',
  'Upgrade',
]

/**
 * Names that are read of Connection headers: a head has no more lines (`maxHeadLines`). Who lists more lists what is not
 * there, and could as well not list what is.
 */
const maxNamed = 1000

/** Names (canonical) that Connection headers list: they are for this hop only. Undefined: none that is not known. */
export function namedByConnection(values: readonly string[]): Set<string> | undefined {
  let named: Set<string> | undefined
  let left = maxNamed
  for (const value of values) {
    const lower = value.toLowerCase()
    if (lower === 'keep-alive' || lower === 'close' || lower === 'upgrade') continue
    named ??= new Set()
    const tokens = value.split(',', left)
    left -= tokens.length
    for (const token of tokens) named.add(canonicalHeaderName(token.trim()))
  }
  return named
}
