import { KasError } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import { hopByHopHeaders, namedByConnection } from '../../../../proto/http/hop-by-hop.ts'
import type { Headers, HttpResponseHeader } from '../../../../proto/http/http-message.ts'
import { canonicalHeaderName } from '../../../../proto/http/http-over-grpc.ts'
import { originHeaders } from './cors.ts'
import { type AskedPlace, relativeLocation } from './relative-location.ts'
import { ResponseAllowList } from './response-allow-list.ts'
import { VersionSkew } from './version-skew.ts'

/** Head of a cluster's answer for the caller (doc/reference/tunnel-protocol.md 6.4). */
export interface ResponseHead {
  /** undefined: the code's usual text */
  readonly statusText: string | undefined
  /** name, value, name, value; names may repeat */
  readonly headers: string[]
  /** undefined: the cluster did not send a length */
  readonly contentLength: number | undefined
}

/** Rules for rewriting answers. */
export interface ResponseRules {
  /** kas' own entry in the Via header */
  readonly via: string
  /** absent: versions are not compared */
  readonly skew?: { warningFor(via: string | undefined): string | undefined } | undefined
  /** absent: all headers pass that are not removed */
  readonly allowList?: { passes(name: string): boolean } | undefined
}

export interface ResponseRuleOptions {
  /** versions to compare with the agent's, `vN.N.N`; absent: no warnings */
  readonly versions?: { readonly kas: string; readonly gitlab: string }
  /** names of headers that pass beside the well-known ones; absent: all headers pass that are not removed */
  readonly allowedResponseHeaders?: readonly string[]
}

/** Creates the rules for clusters' answers from the options. */
export function responseRules(
  { versions, allowedResponseHeaders: allowed }: ResponseRuleOptions,
  log: Logger,
): Omit<ResponseRules, 'via'> {
  return {
    skew: versions && new VersionSkew(versions),
    allowList: allowed && new ResponseAllowList(log, allowed),
  }
}

const removed = new Set([
  ...hopByHopHeaders,
  // kas decides which pages may read the answer
  'Access-Control-Allow-Origin',
  'Access-Control-Allow-Headers',
  'Access-Control-Allow-Credentials',
  'Access-Control-Allow-Methods',
  'Access-Control-Max-Age',
  // headers of kas itself
  'Gitlab-Unauthorized',
  'Kas-Delivery',
])
/**
 * Headers that control nginx, Apache, lighttpd, LiteSpeed, Perlbal, Envoy, Workhorse or a cache; some read `_` as `-`.
 */
const steering =
  /^(?:x[-_](?:accel|sendfile|lighttpd|litespeed|reproxy|envoy)|surrogate|gitlab[-_](?:kas|workhorse))(?:\d|[-_]|$)/i
/** Characters of a status text that is passed on: node's own have at most 31. */
const maxStatusText = 256
/** Valid characters of a status text. */
const text = /^[\t\x20-\x7e\x80-\xff]*$/

/**
 * Rewrites the head of an answer.
 *
 * @param options.asked - place of the request; absent: Location stays unchanged
 * @param options.upgrade - the answer is a 101, whose Upgrade header stays
 * @throws KasError INVALID_MESSAGE if lengths contradict each other: the cluster could then write answers to requests
 *   of others
 */
export function readResponseHead(
  { statusCode, status, header }: HttpResponseHeader,
  options: ResponseRules & { origin: string | undefined; upgrade: boolean; asked?: AskedPlace | undefined },
): ResponseHead {
  const { skew, allowList } = options
  const headers = options.origin === undefined ? [] : originHeaders(options.origin)
  const named = namedByConnectionHeader(header)
  let contentLength: number | undefined
  let clusterVia: string | undefined
  for (const [name, values] of header) {
    const canonical = canonicalHeaderName(name)
    if (canonical === 'Content-Length') {
      for (const value of values) contentLength = sameLength(value, contentLength)
    } else if (canonical === 'Upgrade' && options.upgrade) {
      for (const value of values) headers.push('Upgrade', value)
    } else if (!removed.has(canonical) && !steering.test(canonical) && !named?.has(canonical)) {
      if (allowList && !allowList.passes(canonical)) continue
      if (canonical === 'Via') clusterVia = values.at(-1)
      const asked = canonical === 'Location' ? options.asked : undefined
      for (const value of values) headers.push(canonical, asked ? relativeLocation(value, asked) : value)
    }
  }
  if (options.upgrade) headers.push('Connection', 'Upgrade')
  else if (contentLength !== undefined && statusCode !== 204) headers.push('Content-Length', String(contentLength))
  headers.push('Via', options.via)
  const warning = skew?.warningFor(clusterVia)
  if (warning !== undefined) headers.push('Warning', warning)
  const space = status.indexOf(' ')
  const statusText = space < 0 ? '' : status.slice(space + 1)
  const passes = statusText !== '' && statusText.length <= maxStatusText && text.test(statusText)
  return { statusText: passes ? statusText : undefined, headers, contentLength }
}

/** Reads all Connection headers: the name may be repeated in different spellings. */
function namedByConnectionHeader(header: Headers): Set<string> | undefined {
  let all: string[] | undefined
  for (const [name, values] of header) {
    if (canonicalHeaderName(name) === 'Connection') all = all ? [...all, ...values] : values
  }
  return all && namedByConnection(all)
}

function sameLength(value: string, before: number | undefined): number {
  const length = /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN
  if (Number.isNaN(length) || (before !== undefined && before !== length)) {
    throw new KasError({ code: 'INVALID_MESSAGE', detail: 'the Content-Length of the answer is not valid' })
  }
  return length
}
