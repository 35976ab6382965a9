import { KasError } from '../../lib/errors.ts'
import { type LongQuery, ownNames, type Query, readLongQuery } from './long-query.ts'

/**
 * Target of a request line, in the form in which it goes to the agent (doc/reference/tunnel-protocol.md 1.3 and 6.4).
 */
export interface Target {
  /** decoded, without the prefix, begins with `/` */
  readonly path: string
  /** the same path, with its encoding as it came */
  readonly rawPath: string
  /** the last segment of the prefix, if the request is for its root without the slash behind it */
  readonly root?: string
  /** decoded, sorted by name, values in order, without kas' own; for a long query only the parameters that kas reads */
  readonly query: Query
  /** as it came, without kas' own parameters; a long query still has them */
  readonly rawQuery: string
  /** values of the parameters that replace the headers Gitlab-Agent-Id and X-Csrf-Token */
  readonly agentIds: readonly string[]
  readonly csrfTokens: readonly string[]
  /** the client asks for a token with which a browser can open a WebSocket at this path */
  readonly wantsToken: boolean
  /** absent: `query` is complete */
  readonly long?: LongQuery
}

const slash = 47
const none: readonly string[] = []
/** Limit of parameters, including empty ones, that are built at once, while the caller is still unknown. */
export const maxStrangerParameters = 1000
/**
 * API servers name these documents in `/openapi/v3` by their path alone. kubectl 1.26 to 1.27.1 and helm 3.12.0 leave
 * the prefix out of it (https://github.com/kubernetes/kubernetes/issues/117463).
 */
const openapiDocument = /^\/openapi\/v3\/[^?]/
const absoluteForm = /^https?:\/\/[^/?#]*/i

/**
 * Matches `.` and `..` segments. Resolved by a URL parser, one could leave the path of the cluster's API server, if a
 * front serves several clusters under one name. Some parsers take `\` for `/`.
 */
const dotSegment = /(?:^|[/\\])\.\.?(?:[/\\]|$)/

/**
 * Reads the target of a request. `%2F` becomes `/`, because the wire has decoded paths only; `//` stays as it is.
 *
 * @param prefix - ends with `/`; the root is also found without that slash
 * @param head - with an Authorization header a document of `/openapi/v3` is found without the prefix
 * @throws KasError PREFIX_MISSING, BAD_REQUEST
 */
export function parseTarget(
  target: string,
  prefix: string,
  head?: { readonly authorization: readonly string[] },
): Target {
  const local = target.charCodeAt(0) === slash ? target : fromAbsoluteForm(target)
  if (local.includes('#')) throw bad('the target has a fragment')
  const mark = local.indexOf('?')
  const raw = mark < 0 ? local : local.slice(0, mark)
  const path = decode(raw, 'path')
  if (dotSegment.test(path)) throw bad('the path has a segment "." or ".."')
  const rawQuery = mark < 0 ? '' : local.slice(mark + 1)
  const long = readLongQuery(rawQuery, maxStrangerParameters)
  const query = rawQuery === '' || long ? undefined : parseQuery(rawQuery)
  const lacksPrefix = head !== undefined && head.authorization.length > 0 && openapiDocument.test(raw)
  const place =
    lacksPrefix && !path.startsWith(prefix)
      ? { path, rawPath: raw }
      : { path: withoutPrefix(path, prefix), ...rawPlace(raw, prefix) }
  if (long) return { ...place, ...longTarget(rawQuery, long) }
  if (!query) return { ...place, query: [], rawQuery, agentIds: none, csrfTokens: none, wantsToken: false }
  const before = query.size
  const agentIds = take(query, 'gitlab-agent-id')
  const csrfTokens = take(query, 'gitlab-csrf-token')
  const wantsToken = isTrue(take(query, 'kas-websocket-token-request'))
  const rest = query.size === before ? rawQuery : withoutOwn(rawQuery)
  return { ...place, query: sorted(query), rawQuery: rest, agentIds, csrfTokens, wantsToken }
}

/**
 * Returns the target with its whole query, once the caller is known and the memory is counted.
 *
 * @throws KasError BAD_REQUEST
 */
export function wholeTarget(target: Target): Target {
  if (!target.long) return target
  const { long, ...rest } = target
  const rawQuery = long.hasOwn ? withoutOwn(target.rawQuery) : target.rawQuery
  return { ...rest, rawQuery, query: sorted(parseQuery(rawQuery)) }
}

function longTarget(rawQuery: string, long: LongQuery): Omit<Target, 'path' | 'rawPath'> {
  const { query } = long
  const agentIds = take(query, 'gitlab-agent-id')
  const csrfTokens = take(query, 'gitlab-csrf-token')
  const wantsToken = isTrue(take(query, 'kas-websocket-token-request'))
  return { query: sorted(query), rawQuery, agentIds, csrfTokens, wantsToken, long }
}

/** Cuts kas' own parameters out, and keeps each other byte as it came. */
function withoutOwn(rawQuery: string): string {
  return rawQuery
    .split('&')
    .filter((pair) => !ownNames.has(nameOf(pair)))
    .join('&')
}

function nameOf(pair: string): string {
  const mark = pair.indexOf('=')
  return decodeForm(mark < 0 ? pair : pair.slice(0, mark))
}

/** Removes the prefix by segments, because its characters may be encoded. */
function rawPlace(raw: string, prefix: string): Pick<Target, 'rawPath' | 'root'> {
  const segments = prefix.split('/').length - 2
  const rest = raw.split('/').slice(1 + segments)
  const root = raw.split('/').at(-1)
  return rest.length === 0 && root !== undefined ? { rawPath: '/', root } : { rawPath: `/${rest.join('/')}` }
}

function withoutPrefix(path: string, prefix: string): string {
  if (path.startsWith(prefix)) return path.slice(prefix.length - 1)
  if (path.length === prefix.length - 1 && prefix.startsWith(path)) return '/'
  throw new KasError({ code: 'PREFIX_MISSING', prefix })
}

function fromAbsoluteForm(target: string): string {
  const authority = absoluteForm.exec(target)
  if (!authority) throw bad('the target is neither a path nor a URL')
  const rest = target.slice(authority[0].length)
  return rest.startsWith('/') ? rest : `/${rest}`
}

function parseQuery(raw: string): Map<string, string[]> {
  const query = new Map<string, string[]>()
  for (let from = 0; from < raw.length; ) {
    const found = raw.indexOf('&', from)
    const end = found < 0 ? raw.length : found
    if (end > from) addPair(query, raw.slice(from, end))
    from = end + 1
  }
  return query
}

function addPair(query: Map<string, string[]>, pair: string): void {
  const mark = pair.indexOf('=')
  const name = decodeForm(mark < 0 ? pair : pair.slice(0, mark))
  const value = mark < 0 ? '' : decodeForm(pair.slice(mark + 1))
  const values = query.get(name)
  if (values) values.push(value)
  else query.set(name, [value])
}

function sorted(query: Map<string, string[]>): Query {
  const entries = [...query]
  return entries.length > 1 ? entries.sort(([a], [b]) => (a < b ? -1 : 1)) : entries
}

function take(query: Map<string, string[]>, name: string): readonly string[] {
  const values = query.get(name)
  if (!values) return none
  query.delete(name)
  return values
}

/** Reads a boolean as Go does. */
function isTrue([value = '']: readonly string[]): boolean {
  return /^(?:1|t|T|TRUE|true|True)$/.test(value)
}

function decodeForm(text: string): string {
  return decode(text.includes('+') ? text.replaceAll('+', ' ') : text, 'query')
}

/** A parameter that cannot be decoded is refused, not dropped: without its selector a request may affect far more. */
function decode(text: string, part: 'path' | 'query'): string {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    throw bad(`the ${part} has an invalid percent encoding or is not UTF-8`)
  }
}

function bad(detail: string): KasError {
  return new KasError({ code: 'BAD_REQUEST', detail })
}
