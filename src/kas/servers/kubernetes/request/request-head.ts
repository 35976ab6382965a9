import type { IncomingMessage } from 'node:http'
import { askedName, askedNames } from '../../../../kubernetes/request/asked-identity.ts'
import { KasError } from '../../../../lib/errors.ts'
import { isImpersonationHeader } from '../../../../lib/impersonated-names.ts'
import { hopByHopHeaders, namedByConnection } from '../../../../proto/http/hop-by-hop.ts'
import type { Headers } from '../../../../proto/http/http-message.ts'
import { canonicalHeaderName } from '../../../../proto/http/http-over-grpc.ts'
import { passedCookies } from './passed-cookies.ts'

/** Head of a request, divided into kas' part and the part for the cluster (doc/reference/tunnel-protocol.md 6.4). */
export interface RequestHead {
  authorization: readonly string[]
  readonly cookies: string[]
  readonly hosts: string[]
  readonly agentIds: string[]
  readonly csrfTokens: string[]
  /** tokens with which browsers open a WebSocket (doc/reference/tunnel-protocol.md 6.8) */
  readonly webSocketTokens: string[]
  /** encoded bearer tokens from sub-protocols (`readAuthorization`) */
  readonly bearerProtocols: string[]
  /** the client offers a sub-protocol that goes on to the cluster */
  offersProtocol: boolean
  readonly origins: string[]
  readonly accept: string[]
  /** methods and headers that a preflight asks about */
  readonly corsMethods: string[]
  readonly corsHeaders: string[]
  /** names in `Impersonate-*` headers: `askedName` of the first ones */
  readonly askedAs: string[]
  /** values of the Upgrade header */
  readonly upgrade: string[]
  /** 0: no body; -1: unknown */
  contentLength: number
  /** headers for the cluster, with canonical names; without Via */
  header: Headers
}

/** Header lines of one request: as many group names as fit into a head that an API server accepts. */
export const maxHeaderLines = 50_000
/** Number of names above which a map finds them. */
const fewNames = 50

/** Sub-protocol in which browsers pass a token with a WebSocket (doc/reference/gitlab-contract.md 9.4 no. 41). */
const tokenProtocol = 'websocket-token.kas.gitlab.com.'
/** Sub-protocol in which browser clients of Kubernetes pass a token: the rest is the token, in base64url. */
export const bearerProtocol = 'base64url.bearer.authorization.k8s.io.'

/** Header whose addresses a cluster's audit log records in `sourceIPs`. */
export const forwardedForHeader = 'X-Forwarded-For'

type Take = (head: Reading, value: string) => void
interface Reading extends RequestHead {
  authorization: string[]
  connection: string[]
}

/** Matches HTTP/2 among the names of an Upgrade header. */
const http2Name = /(?:^|,)[ \t]*(?:h2c?|http\/2(?:\.0)?)[ \t]*(?:,|$)/i

const drop: Take = () => undefined

/** Headers with a rule of their own; all others go on, except those that begin with `Gitlab-Kas-`. */
const special = new Map<string, Take>([
  ...hopByHopHeaders.map((name): [string, Take] => [name, drop]),
  ['Authorization', (head, value) => keep(head.authorization, value)],
  ['Cookie', (head, value) => head.cookies.push(value)],
  ['Gitlab-Agent-Id', (head, value) => head.agentIds.push(value)],
  ['X-Csrf-Token', (head, value) => head.csrfTokens.push(value)],
  ['Host', (head, value) => keep(head.hosts, value)],
  ['Connection', (head, value) => head.connection.push(value)],
  ['Upgrade', (head, value) => head.upgrade.push(value)],
  ['Content-Length', takeLength],
  ['Transfer-Encoding', takeCoding],
  ['Accept', (head, value) => add(head.header, 'Accept', keep(head.accept, value))],
  ['Origin', (head, value) => add(head.header, 'Origin', keep(head.origins, value))],
  [
    'Access-Control-Request-Method',
    (head, value) => add(head.header, 'Access-Control-Request-Method', keep(head.corsMethods, value)),
  ],
  [
    'Access-Control-Request-Headers',
    (head, value) => add(head.header, 'Access-Control-Request-Headers', keep(head.corsHeaders, value)),
  ],
  ['Sec-Websocket-Protocol', addProtocols],
  ['Expect', drop],
  ['Audit-Id', drop], // kas creates one for its own log
])

/**
 * Reads `rawHeaders`, because node's `headers` silently drops repeated headers.
 *
 * @param upgrading - Upgrade goes on, with `Connection: upgrade`
 * @throws KasError BAD_REQUEST, HEAD_TOO_LARGE
 */
export function readRequestHead(
  request: Pick<IncomingMessage, 'rawHeaders' | 'httpVersionMajor' | 'httpVersionMinor'>,
  upgrading: boolean,
): RequestHead {
  const { rawHeaders, httpVersionMajor, httpVersionMinor } = request
  if (rawHeaders.length > 2 * maxHeaderLines) throw new KasError({ code: 'HEAD_TOO_LARGE' })
  if (httpVersionMajor !== 1) throw bad('HTTP/1.0 and HTTP/1.1 are spoken here')
  const head = emptyHead()
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = canonicalHeaderName(rawHeaders[i] as string)
    const value = rawHeaders[i + 1] as string
    if (isImpersonationHeader(name) && head.askedAs.length < askedNames.count) head.askedAs.push(askedName(name, value))
    const take = special.get(name)
    if (take) take(head, value)
    else if (!name.startsWith('Gitlab-Kas-')) add(head.header, name, value)
  }
  if (httpVersionMinor === 0 && head.contentLength < 0) throw bad('HTTP/1.0 has no Transfer-Encoding')
  if (head.hosts.length > 1 || (head.hosts.length === 0 && httpVersionMinor === 1))
    throw bad('exactly one Host header is needed')
  if (head.connection.length > 0) dropNamed(head)
  if (upgrading) head.header.push(['Upgrade', head.upgrade], ['Connection', ['upgrade']])
  return head
}

const forwardedHost = 'X-Forwarded-Host'
const forwardedProto = 'X-Forwarded-Proto'
const plainHost = /^[\w.:[\]-]{1,255}$/

export interface CalledAs {
  readonly isTls: boolean
  /** true: forwarded headers of the request are replaced, because no trusted front has written them */
  readonly replaces: boolean
}

/** Headers in which a cluster would read the client's address: anybody may have written them. */
const clientHeaders: ReadonlySet<string> = new Set([forwardedForHeader, 'X-Real-Ip', 'Forwarded'])

/** Sets the client's address for the cluster, and removes all other headers about it. */
export function nameClient(head: Pick<RequestHead, 'header'>, address: string): void {
  head.header = head.header.filter(([name]) => !clientHeaders.has(name))
  head.header.push([forwardedForHeader, [address]])
}

/** Adds the host and protocol of the caller's request for the cluster: web applications make URLs of them. */
export function nameHost(head: Pick<RequestHead, 'header' | 'hosts'>, { isTls, replaces }: CalledAs): void {
  const [host = ''] = head.hosts
  if (replaces) head.header = head.header.filter(([name]) => name !== forwardedHost && name !== forwardedProto)
  const has = (name: string) => head.header.some(([other]) => other === name)
  if (plainHost.test(host) && !has(forwardedHost)) head.header.push([forwardedHost, [host]])
  if (!has(forwardedProto)) head.header.push([forwardedProto, [isTls ? 'https' : 'http']])
}

/** Passes cookies on, except GitLab's. Only for requests that were not sent to GitLab's host (`isSentToGitlab`). */
export function passCookies(head: Pick<RequestHead, 'header' | 'cookies'>): void {
  const passed = passedCookies(head.cookies)
  if (passed.length > 0) head.header.push(['Cookie', passed])
}

/** True if a browser asks whether a page may send a request. Any other OPTIONS is the caller's own request. */
export function isPreflight(method: string, { origins, corsMethods }: Pick<RequestHead, 'origins' | 'corsMethods'>) {
  return method === 'OPTIONS' && origins.length > 0 && corsMethods.length > 0
}

/** True if the head names no body: node marks a request complete only after it has handed it over. */
export function hasNoBody({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  return headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0
}

/**
 * True if a connection may be asked to change its protocol by this head; otherwise Upgrade is ignored, as HTTP allows.
 * A body could not be separated from the bytes of the upgraded connection. An HTTP/2 connection to the API server would
 * carry requests that kas has not checked.
 */
export function mayUpgrade({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  return hasNoBody({ headers }) && !http2Name.test(headers.upgrade ?? '')
}

function emptyHead(): Reading {
  return {
    authorization: [],
    cookies: [],
    agentIds: [],
    csrfTokens: [],
    webSocketTokens: [],
    bearerProtocols: [],
    offersProtocol: false,
    askedAs: [],
    origins: [],
    accept: [],
    corsMethods: [],
    corsHeaders: [],
    upgrade: [],
    contentLength: 0,
    header: [],
    hosts: [],
    connection: [],
  }
}

/** Adds a value. Most heads are short, so a scan is cheaper than a map. */
export function add(header: Headers, name: string, value: string): void {
  const entry = header.length > fewNames ? entryOf(header, name) : header.find(([other]) => other === name)
  if (entry) entry[1].push(value)
  else header.push([name, [value]])
}

/** index of long heads, in which each name has one entry */
const byName = new WeakMap<Headers, Map<string, Headers[number]>>()

function entryOf(header: Headers, name: string): Headers[number] | undefined {
  const names = byName.get(header) ?? new Map<string, Headers[number]>()
  byName.set(header, names)
  for (let at = names.size; at < header.length; at++) {
    const entry = header[at] as Headers[number]
    names.set(entry[0], entry)
  }
  return names.get(name)
}

function dropNamed(head: Reading): void {
  const named = namedByConnection(head.connection)
  if (named) head.header = head.header.filter(([name]) => !named.has(name))
}

function addProtocols(head: Reading, value: string): void {
  const others = value.split(',').filter((protocol) => {
    const name = protocol.trim()
    const isToken = name.startsWith(tokenProtocol)
    const isBearer = name.startsWith(bearerProtocol)
    if (isToken) head.webSocketTokens.push(name.slice(tokenProtocol.length))
    else if (isBearer) head.bearerProtocols.push(name.slice(bearerProtocol.length))
    else head.offersProtocol ||= name !== ''
    return !isToken && !isBearer
  })
  if (others.length > 0) add(head.header, 'Sec-Websocket-Protocol', others.join(',').trim())
}

function keep(values: string[], value: string): string {
  values.push(value)
  return value
}

/** Reads the length. node refuses repeated and non-numeric lengths, but would round one over 2^53. */
function takeLength(head: Reading, value: string): void {
  head.contentLength = Number(value)
  if (!Number.isSafeInteger(head.contentLength)) throw bad('the Content-Length is too large')
}

/** Accepts only `chunked`, which node decodes: the cluster would get another coding without its name. */
function takeCoding(head: Reading, value: string): void {
  if (value.toLowerCase() !== 'chunked') throw bad('the only Transfer-Encoding is chunked')
  head.contentLength = -1
}

function bad(detail: string): KasError {
  return new KasError({ code: 'BAD_REQUEST', detail })
}
