import { isImpersonationHeader } from '../../../lib/impersonated-names.ts'
import { hopByHopHeaders, namedByConnection } from '../../../proto/http/hop-by-hop.ts'
import type { HttpRequestHeader, HttpResponseHeader } from '../../../proto/http/http-message.ts'
import { canonicalHeaderName } from '../../../proto/http/http-over-grpc.ts'
import type { Identities } from '../../cluster/identities.ts'

/** Request headers that are not passed on: those of one hop, and those that agentk sets itself. */
const notSent = new Set([
  ...hopByHopHeaders.map((name) => name.toLowerCase()),
  'authorization',
  'content-length',
  'expect',
  'host',
  'via',
])

export interface PlannedRequest {
  /** name, value, name, value */
  readonly headers: string[]
  /** protocol to change to; undefined: a plain request */
  readonly upgrade: string | undefined
  /** bytes of the body; -1: length unknown; undefined: not known if there is a body */
  readonly contentLength: number | undefined
}

/**
 * Plans the request to the API server for a request from kas. The client adds the agent's own credentials.
 *
 * @throws KasError IDENTITY_REFUSED, or STATUS Unavailable for nested impersonation
 */
export function planRequest(
  header: HttpRequestHeader,
  options: {
    readonly identities: Pick<Identities, 'headers'>
    /** `gRPC/1.0 gitlab-agent/<version>/<commit>` */
    readonly via: string
  },
): PlannedRequest {
  const headers = options.identities.headers(header.impersonation, header.header)
  const named = namedByConnection(header.header.flatMap(([name, values]) => (isConnection(name) ? values : [])))
  let upgrade: string | undefined
  let contentLength = header.contentLength
  for (const [name, values] of header.header) {
    const lower = name.toLowerCase()
    if (lower === 'upgrade') upgrade = values[0] || undefined
    else if (lower === 'via') for (const value of values) headers.push('Via', value)
    // kas before 16.0 sends the length in this header alone
    else if (lower === 'content-length') contentLength ??= wholeNumber(values[0])
    else if (notSent.has(lower) || isImpersonationHeader(lower) || named?.has(canonicalHeaderName(name))) continue
    else for (const value of values) headers.push(name, value)
  }
  headers.push('Via', options.via)
  if (upgrade) headers.push('Connection', 'upgrade', 'Upgrade', upgrade)
  else if (contentLength !== undefined && contentLength > 0) headers.push('Content-Length', String(contentLength))
  return { headers, upgrade, contentLength }
}

function isConnection(name: string): boolean {
  return name.toLowerCase() === 'connection'
}

function wholeNumber(text: string | undefined): number | undefined {
  return text && /^\d{1,15}$/.test(text) ? Number(text) : undefined
}

/** Response headers that are not passed to kas. */
const notReturned = new Set(hopByHopHeaders)
const none: ReadonlySet<string> = new Set()

/** Headers as received: name, value, name, value. */
type RawHeaders = readonly (Buffer | string)[]

/**
 * Returns the head of an answer for kas: canonical names, all values of a name in order, no headers of one hop. The
 * agent's own entry is the last of Via. An upgrade (101) keeps `Upgrade`, with `Connection` exactly `upgrade`.
 *
 * @param via - `1.1 gitlab-agent/<version>/<commit>`
 */
export function responseHeader(
  statusCode: number,
  statusText: string,
  rawHeaders: RawHeaders,
  via: string,
): HttpResponseHeader {
  const byName = new Map<string, string[]>()
  const connection: string[] = []
  const upgraded = statusCode === 101
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = canonicalHeaderName(latin1(rawHeaders[i] as Buffer | string))
    const value = latin1(rawHeaders[i + 1] as Buffer | string)
    if (name === 'Connection') connection.push(value)
    if (!notReturned.has(name) || (upgraded && name === 'Upgrade')) add(byName, name, value)
  }
  if (upgraded) add(byName, 'Connection', 'upgrade')
  else for (const name of namedByConnection(connection) ?? none) byName.delete(name)
  add(byName, 'Via', via)
  return {
    statusCode,
    status: statusText ? `${statusCode} ${statusText}` : String(statusCode),
    header: [...byName],
  }
}

function add(byName: Map<string, string[]>, name: string, value: string): void {
  const values = byName.get(name)
  if (values) values.push(value)
  else byName.set(name, [value])
}

function latin1(text: Buffer | string): string {
  return typeof text === 'string' ? text : text.toString('latin1')
}
