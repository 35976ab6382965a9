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

/** Names (canonical) that Connection headers list: they are for this hop only. Undefined: none that is not known. */
export function namedByConnection(values: readonly string[]): Set<string> | undefined {
  let named: Set<string> | undefined
  for (const value of values) {
    const lower = value.toLowerCase()
    if (lower === 'keep-alive' || lower === 'close' || lower === 'upgrade') continue
    named ??= new Set()
    for (const token of value.split(',')) named.add(canonicalHeaderName(token.trim()))
  }
  return named
}
