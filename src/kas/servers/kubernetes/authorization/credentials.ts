import { type AgentId, maxAgentId, parseAgentId } from '../../../../call/call.ts'
import type { Target } from '../../../../kubernetes/request/target.ts'
import { KasError } from '../../../../lib/errors.ts'
import type { UserCredential } from '../../../directory/directory.ts'
import type { RequestHead } from '../request/request-head.ts'

/** Credentials in a request, of which only the form is checked. */
export type Credentials =
  | { readonly kind: 'job'; readonly agentId: AgentId; readonly token: string }
  /** the first accepted one of `candidates` counts */
  | { readonly kind: 'user'; readonly agentId: AgentId; readonly candidates: readonly UserCredential[] }

/** Browsers may send several cookies with one name (doc/reference/gitlab-contract.md 9.4 no. 35). */
const maxSessionCookies = 3

/** Session cookies that are read, unreadable ones included. */
const maxCookiesRead = 20

const cookieName = '_gitlab_kas'
const bearer = 'Bearer '
/** An int64 has at most this many characters: a longer text may be a misplaced token, and is not repeated. */
const maxEchoedCharacters = 20

/** True for a cookie, which browsers send with the requests of any page, and for a WebSocket token made from one. */
export function isByCookie(credentials: Credentials): boolean {
  return credentials.kind === 'user' && credentials.candidates.some(({ type }) => type === 'session_cookie')
}

type Source = Pick<RequestHead, 'authorization' | 'cookies' | 'agentIds' | 'csrfTokens'>
type Query = Pick<Target, 'agentIds' | 'csrfTokens'>

/**
 * Reads the credentials of a request (doc/reference/tunnel-protocol.md 6.2). An Authorization header in another form
 * fails, even if there is a valid cookie.
 *
 * @throws KasError CREDENTIALS_INVALID, in upstream's words
 */
export function readCredentials(head: Source, query: Query): Credentials {
  if (head.authorization.length > 0) return fromAuthorization(head.authorization)
  const cookies = head.cookies.length > 0 ? sessionCookies(head.cookies) : []
  if (cookies.length > 0) return fromCookies(cookies, head, query)
  throw invalid('no valid credentials provided')
}

function fromAuthorization(values: readonly string[]): Credentials {
  if (values.length > 1) throw invalid(`Authorization header: expecting a single header, got ${values.length}`)
  const value = values[0] as string
  if (!value.startsWith(bearer)) throw invalid('Authorization header: expecting Bearer token')
  const typeEnd = value.indexOf(':', bearer.length)
  if (typeEnd < 0) throw invalid('Authorization header: invalid value')
  const type = value.slice(bearer.length, typeEnd)
  if (type !== 'ci' && type !== 'pat') throw invalid('Authorization header: unknown token type')
  const idEnd = value.indexOf(':', typeEnd + 1)
  if (idEnd < 0) throw invalid('Authorization header: invalid value')
  const agentId = bearerAgentId(value.slice(typeEnd + 1, idEnd))
  const token = value.slice(idEnd + 1)
  if (token === '') throw invalid('Authorization header: empty token')
  if (type === 'ci') return { kind: 'job', agentId, token }
  return { kind: 'user', agentId, candidates: [{ type: 'personal_access_token', key: token }] }
}

/** Parses the id, and fails in the words of Go's strconv.ParseInt, which users of upstream know. */
function bearerAgentId(text: string): AgentId {
  const failed = (reason: string) => {
    const echoed = text.length > maxEchoedCharacters ? '…' : text
    return invalid(
      `Authorization header: failed to parse: strconv.ParseInt: parsing ${JSON.stringify(echoed)}: ${reason}`,
    )
  }
  if (!/^[+-]?\d+$/.test(text)) throw failed('invalid syntax')
  if (text.length > maxEchoedCharacters) throw failed('value out of range')
  const id = BigInt(text)
  if (id > maxAgentId || id <= 0n) throw failed('value out of range')
  return id as AgentId
}

function fromCookies(cookies: readonly string[], head: Source, query: Query): Credentials {
  const keys = cookies
    .slice(0, maxCookiesRead)
    .map(unescapeCookie)
    .filter((key): key is string => key !== undefined && key !== '')
  if (keys.length === 0) {
    throw invalid(
      cookies.every((cookie) => cookie === '')
        ? `${cookieName} cookie value must not be empty`
        : `${cookieName} invalid cookie value`,
    )
  }
  const id = exactlyOne('Gitlab-Agent-Id', 'agent id', head.agentIds, 'gitlab-agent-id', query.agentIds)
  const agentId = parseAgentId(id.replace(/^\+/, ''))
  if (agentId === undefined) {
    throw invalid(`agent id in request: invalid value: ${JSON.stringify(id.slice(0, maxEchoedCharacters))}`)
  }
  const csrfToken = exactlyOne('X-Csrf-Token', 'CSRF token', head.csrfTokens, 'gitlab-csrf-token', query.csrfTokens)
  return {
    kind: 'user',
    agentId,
    candidates: keys.slice(0, maxSessionCookies).map((key) => ({ type: 'session_cookie', key, csrfToken })),
  }
}

/** Returns the value of the header, else of the query parameter. */
function exactlyOne(
  header: string,
  what: string,
  values: readonly string[],
  parameter: string,
  fallback: readonly string[],
): string {
  if (values.length > 1) throw invalid(`${header} header must have exactly one value`)
  const [value] = values.length === 1 ? values : fallback
  if (value === undefined || value === '' || (values.length === 0 && fallback.length > 1)) {
    throw invalid(
      `exactly one ${what} must be provided either in the "${header}" header or "${parameter}" query parameter`,
    )
  }
  return value
}

function sessionCookies(headers: readonly string[]): string[] {
  const found: string[] = []
  for (const header of headers) {
    for (const pair of header.split(';')) {
      const mark = pair.indexOf('=')
      if (mark < 0 || pair.slice(0, mark).trim() !== cookieName) continue
      const value = pair.slice(mark + 1).trim()
      found.push(/^".*"$/.test(value) ? value.slice(1, -1) : value)
    }
  }
  return found
}

/** Reverses Rack's escaping of cookie values, which is that of forms. */
function unescapeCookie(value: string): string | undefined {
  try {
    return decodeURIComponent(value.replaceAll('+', ' '))
  } catch {
    return undefined
  }
}

function invalid(detail: string): KasError {
  return new KasError({ code: 'CREDENTIALS_INVALID', detail })
}
