import { KasError } from '../../../lib/errors.ts'
import { hopByHopHeaders, namedByConnection } from '../../../proto/http/hop-by-hop.ts'
import type { Headers, ModuleRequestHeader } from '../../../proto/http/http-message.ts'
import { canonicalHeaderName } from '../../../proto/http/http-over-grpc.ts'
import { requestUrl } from '../../../proto/http/request-url.ts'

/** The head of an agent's request as GitLab gets it. */
export interface GitlabRequestHead {
  readonly method: string
  /** `/<module>/<path>?<query>`, encoded */
  readonly target: string
  /** name, value, name, value; without those that kas adds */
  readonly headers: string[]
}

/** Bytes of a whole head; GitLab's own web servers accept less. */
const maxHeadBytes = 64 * 1024
/** Header lines of one request. */
const maxHeaderLines = 500

/**
 * Headers of an agent that are dropped: hop-by-hop headers, those that authenticate a caller to GitLab, and those of
 * proxies in front of GitLab. An agent's header must not pass for one of kas.
 */
const notPassed = new Set([
  ...hopByHopHeaders,
  'Authorization',
  'Client-Ip',
  'Content-Length',
  'Cookie',
  'Deploy-Token',
  'Expect',
  'Forwarded',
  'Host',
  'Job-Token',
  'Private-Token',
  'Sudo',
  'True-Client-Ip',
  'User-Agent',
  'X-Client-Ip',
  'X-Real-Ip',
  'X-Sendfile-Type',
])
const notPassedPrefixes = /^(?:Gitlab-|X-Forwarded-|X-Accel-)/

const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const fieldValue = /^[\t\x20-\x7e\x80-\xff]*$/
/** these ask for a tunnel and for an echo, not for a module */
const notServed = new Set(['CONNECT', 'TRACE'])

/**
 * Returns the head of an agent's request for GitLab.
 *
 * @throws KasError INVALID_MESSAGE: an upgrade, a path that would leave its module, or a violation of HTTP
 * @see doc/reference/tunnel-protocol.md 1.8, 5.3
 */
export function gitlabRequestHead(header: ModuleRequestHeader): GitlabRequestHead {
  const { method } = header
  checkSize(header)
  if (!token.test(method) || notServed.has(method)) throw invalid('the method of the request is not served')
  const target = targetOf(header)
  const headers = passedHeaders(header.header)
  const bytes = headers.reduce((sum, text) => sum + text.length, target.length)
  if (bytes > maxHeadBytes) throw tooLarge()
  return { method, target, headers }
}

/** Checks the size before anything is built from the head, which may be as large as a message. */
function checkSize({ method, moduleName, urlPath, query, header }: ModuleRequestHeader): void {
  let lines = 0
  let bytes = method.length + moduleName.length + urlPath.length
  for (const [name, values] of header) {
    lines += Math.max(1, values.length)
    if (lines > maxHeaderLines) throw invalid(`there are more than ${maxHeaderLines} header lines`)
    bytes += name.length
    for (const value of values) bytes += value.length
  }
  for (const [name, values] of query) {
    for (const value of values) bytes += name.length + value.length + 2 // with = and &
    if (bytes > maxHeadBytes) break
  }
  if (bytes > maxHeadBytes) throw tooLarge()
}

function targetOf({ moduleName, urlPath, query }: ModuleRequestHeader): string {
  if (/[/\\]/.test(moduleName) || isDots(moduleName)) throw invalid('module_name is no name')
  if (!urlPath.startsWith('/')) throw invalid('url_path must begin with a slash')
  // this path would name another endpoint, which an agent must not reach with the credentials of kas
  if (urlPath.split(/[/\\]/).some(isDots)) throw invalid('url_path must not hold . or .. as a segment')
  return `/${encodeURIComponent(moduleName.toWellFormed())}${requestUrl(urlPath, query)}`
}

function isDots(segment: string): boolean {
  return segment === '.' || segment === '..'
}

function passedHeaders(header: Headers): string[] {
  const passed: string[] = []
  const named = namedByConnection(
    header.flatMap(([name, values]) => (canonicalHeaderName(name) === 'Connection' ? values : [])),
  )
  for (const [name, values] of header) {
    const canonical = canonicalHeaderName(name)
    if (canonical === 'Upgrade' && values.length > 0) throw invalid('connection upgrade is not supported')
    if (isAmbiguous(name) || notPassed.has(canonical) || notPassedPrefixes.test(canonical) || named?.has(canonical))
      continue
    if (!token.test(name)) throw invalid('a header name is not valid')
    for (const value of values) {
      if (!fieldValue.test(value)) throw invalid(`the value of header ${canonical} is not valid`)
      passed.push(canonical, value)
    }
  }
  return passed
}

/** True if GitLab's web server could mistake the name for another: it takes `_` for `-`. nginx drops such names too. */
function isAmbiguous(name: string): boolean {
  return name.includes('_')
}

function tooLarge(): KasError {
  return invalid(`the head of the request has more than ${maxHeadBytes} bytes`)
}

function invalid(detail: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail })
}
