import { canonicalHeaderName } from './http-over-grpc.ts'

/** Headers of one connection, canonical, which no proxy passes on (RFC 9110 7.6.1). */
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
 * Bound of names that are read from Connection headers. A head has no more lines (`maxHeadLines`), so further names are
 * absent from it.
 */
const maxNamed = 1000

/**
 * Returns the canonical names that Connection headers list, which are for this hop only. Undefined: only well-known
 * ones.
 */
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
