/** Bytes of a path that Go's URL.EscapedPath does not escape. */
const pathByte = /[A-Za-z0-9\-._~$&+,/:;=@]/
/** Bytes that Go's QueryEscape does not escape. */
const queryByte = /[A-Za-z0-9\-._~]/

const pathEscapes = escapes(pathByte)
const queryEscapes = escapes(queryByte)
queryEscapes[0x20] = '+'

const plainPath = /^[A-Za-z0-9\-._~$&+,/:;=@]*$/
const plainQuery = /^[A-Za-z0-9\-._~]*$/

/**
 * Returns the request target of a decoded path and query, encoded as Go does: the query sorted by name.
 *
 * @param rawQuery - the query as written; absent: `query` is encoded
 * @see doc/reference/tunnel-protocol.md 1.3: an escaped slash in a path has become a slash on its way
 */
export function requestUrl(
  urlPath: string,
  query: readonly (readonly [name: string, values: readonly string[]])[],
  rawQuery?: string,
): string {
  const path = urlPath.startsWith('/') ? urlPath : `/${urlPath}`
  const target = plainPath.test(path) ? path : percentEncode(path, pathEscapes)
  if (rawQuery !== undefined) return rawQuery === '' ? target : `${target}?${rawQuery}`
  const encoded = encodeQuery(query)
  return encoded === '' ? target : `${target}?${encoded}`
}

/** Encodes a decoded query as Go does: sorted by name. */
export function encodeQuery(query: readonly (readonly [name: string, values: readonly string[]])[]): string {
  if (query.length === 0) return ''
  const sorted = query.length === 1 ? query : query.toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
  const pairs: string[] = []
  for (const [name, values] of sorted) {
    for (const value of values) pairs.push(`${escapeQuery(name)}=${escapeQuery(value)}`)
  }
  return pairs.join('&')
}

function escapeQuery(text: string): string {
  return plainQuery.test(text) ? text : percentEncode(text, queryEscapes)
}

function percentEncode(text: string, table: readonly string[]): string {
  let out = ''
  for (const byte of Buffer.from(text)) out += table[byte]
  return out
}

function escapes(plain: RegExp): string[] {
  return Array.from({ length: 256 }, (_, byte) => {
    const char = String.fromCharCode(byte)
    return byte < 128 && plain.test(char) ? char : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  })
}
