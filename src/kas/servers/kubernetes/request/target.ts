import { KasError } from '../../../../lib/errors.ts'

/**
 * What a request line asks for, in the form in which it goes to the agent (doc/reference/tunnel-protocol.md 1.3 and
 * 6.4).
 */
export interface Target {
  /** decoded, without the prefix, begins with `/` */
  readonly path: string
  /** decoded, sorted by name, values in order, without what is meant for kas */
  readonly query: [name: string, values: string[]][]
  /** values of the parameters that stand for the headers Gitlab-Agent-Id and X-Csrf-Token */
  readonly agentIds: readonly string[]
  readonly csrfTokens: readonly string[]
  /** a token is wanted with which a browser can open a WebSocket at this path */
  readonly wantsToken: boolean
}

const slash = 47
const none: readonly string[] = []
/** Of a query, the empty ones too: nobody is known yet when they are read. kubectl's longest are the words of a command. */
const maxParameters = 1000
const absoluteForm = /^https?:\/\/[^/?#]*/i

/**
 * A segment `.` or `..` could leave the path of the cluster's API server (behind a front that serves several
 * clusters under one name) once a URL parser resolves it; some take `\` for `/`.
 */
const dotSegment = /(?:^|[/\\])\.\.?(?:[/\\]|$)/

/**
 * Reads the target of a request. `%2F` becomes `/`, as the wire has decoded paths only; `//` stays as it is.
 *
 * @param prefix - ends with `/`; its root is also reached without that
 * @throws KasError PREFIX_MISSING, BAD_REQUEST
 */
export function parseTarget(target: string, prefix: string): Target {
  const local = target.charCodeAt(0) === slash ? target : fromAbsoluteForm(target)
  if (local.includes('#')) throw bad('the target has a fragment')
  const mark = local.indexOf('?')
  const path = decode(mark < 0 ? local : local.slice(0, mark), 'path')
  if (dotSegment.test(path)) throw bad('the path has a segment "." or ".."')
  const query = mark < 0 || mark === local.length - 1 ? undefined : parseQuery(local.slice(mark + 1))
  const inner = withoutPrefix(path, prefix)
  if (!query) return { path: inner, query: [], agentIds: none, csrfTokens: none, wantsToken: false }
  const agentIds = take(query, 'gitlab-agent-id')
  const csrfTokens = take(query, 'gitlab-csrf-token')
  const wantsToken = isTrue(take(query, 'kas-websocket-token-request'))
  return { path: inner, query: sorted(query), agentIds, csrfTokens, wantsToken }
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
  const pairs = raw.split('&', maxParameters + 1)
  if (pairs.length > maxParameters) throw bad(`the query has more than ${maxParameters} parameters`)
  const query = new Map<string, string[]>()
  for (const pair of pairs) {
    if (pair === '') continue
    const mark = pair.indexOf('=')
    const name = decodeForm(mark < 0 ? pair : pair.slice(0, mark))
    const value = mark < 0 ? '' : decodeForm(pair.slice(mark + 1))
    const values = query.get(name)
    if (values) values.push(value)
    else query.set(name, [value])
  }
  return query
}

function sorted(query: Map<string, string[]>): [string, string[]][] {
  const entries = [...query]
  return entries.length > 1 ? entries.sort(([a], [b]) => (a < b ? -1 : 1)) : entries
}

function take(query: Map<string, string[]>, name: string): readonly string[] {
  const values = query.get(name)
  if (!values) return none
  query.delete(name)
  return values
}

/** As Go reads a boolean. */
function isTrue([value = '']: readonly string[]): boolean {
  return /^(?:1|t|T|TRUE|true|True)$/.test(value)
}

function decodeForm(text: string): string {
  return decode(text.includes('+') ? text.replaceAll('+', ' ') : text, 'query')
}

/** A parameter that cannot be read is refused, not dropped: without its selector a request may mean far more. */
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
