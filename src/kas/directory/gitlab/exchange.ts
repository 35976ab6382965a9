import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import type { Dispatcher } from 'undici'
import { Deadline } from '../../../lib/deadline.ts'
import { KasError } from '../../../lib/errors.ts'
import { gunzipAtOnce, isTooLongUnpacked } from '../../../lib/gunzip-at-once.ts'

/** One request to GitLab and its whole answer. */

export interface HttpRequest {
  readonly method: 'GET' | 'POST'
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | undefined
}

export interface HttpAnswer {
  readonly status: number
  /** lower case, without parameters; empty: none */
  readonly mediaType: string
  /** GitLab's Retry-After */
  readonly retryAfterMs?: number
  readonly body: Buffer
}

export interface ExchangeOptions {
  /** bytes of an answer, compressed and decompressed; a larger one is refused */
  readonly maxBytes: number
  /** the longest that the exchange may take, in ms */
  readonly timeoutMs: number
}

const unpack = promisify(gunzip)

/** Sizes up to which an answer is decompressed in the event loop, in a tenth of a ms; a thread takes ten times that. */
const atOnceBytes = 64 * 1024

/** Reasons that callers may see; the rest stays in the cause, for the log. */
const reasons: Readonly<Record<string, string>> = {
  UND_ERR_CONNECT_TIMEOUT: 'no connection in time',
  UND_ERR_HEADERS_TIMEOUT: 'no answer in time',
  UND_ERR_BODY_TIMEOUT: 'the answer stopped in the middle',
  UND_ERR_SOCKET: 'the connection was closed before the end of the answer',
  UND_ERR_REQ_CONTENT_LENGTH_MISMATCH: 'the connection was closed before the end of the answer',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'the answer has another length than it says',
  TimeoutError: 'no whole answer in time',
}

/**
 * Sends the request; redirects are not followed.
 *
 * @throws KasError GITLAB_UNREACHABLE, GITLAB_ANSWER_INVALID, or the reason of `signal`
 */
export async function exchange(
  dispatcher: Dispatcher,
  { method, url, headers, body }: HttpRequest,
  options: ExchangeOptions,
  signal: AbortSignal,
): Promise<HttpAnswer> {
  const deadline = new Deadline({ ms: options.timeoutMs, signals: [signal] })
  const path = url.pathname
  let headArrived = false
  try {
    const { origin, pathname, search } = url
    const request = { origin, path: pathname + search, method, headers, body: body ?? null, signal: deadline.signal }
    const answer = await dispatcher.request(request)
    headArrived = true
    const { statusCode: status, headers: head } = answer
    const packed = await readBounded(answer.body, { maxBytes: options.maxBytes, path })
    const encoding = text(head['content-encoding'])
    const retryAfterMs = parseRetryAfter(text(head['retry-after']))
    return {
      status,
      mediaType: text(head['content-type']).split(';', 1)[0]?.trim().toLowerCase() ?? '',
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
      body: await decoded(packed, encoding, { maxBytes: options.maxBytes, path }),
    }
  } catch (error) {
    signal.throwIfAborted()
    throw exchangeError(error, { path, headArrived })
  } finally {
    deadline.end()
  }
}

/** Converts the error of an exchange for its caller; a KasError stays as it is. */
export function exchangeError(error: unknown, where: { path: string; headArrived: boolean }): KasError {
  if (error instanceof KasError) return error
  return new KasError({ code: 'GITLAB_UNREACHABLE', ...where, detail: reasonOf(error) }, { cause: error })
}

/** True if the request may have been lost with a connection that GitLab closed while it was idle. */
export function isClosedUnder(error: KasError): boolean {
  const { spec, cause } = error
  if (spec.code !== 'GITLAB_UNREACHABLE' || spec.headArrived) return false
  return ['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'].includes(codeOf(cause))
}

async function readBounded(body: AsyncIterable<Buffer>, limit: { maxBytes: number; path: string }): Promise<Buffer> {
  const parts: Buffer[] = []
  let length = 0
  for await (const part of body) {
    length += part.length
    if (length > limit.maxBytes) throw tooLarge(limit) // the end of the loop closes the connection
    parts.push(part)
  }
  return Buffer.concat(parts, length)
}

async function decoded(packed: Buffer, encoding: string, limit: { maxBytes: number; path: string }): Promise<Buffer> {
  if (encoding === '' || encoding === 'identity' || packed.length === 0) return packed
  const invalid = (detail: string, cause?: unknown) =>
    new KasError({ code: 'GITLAB_ANSWER_INVALID', path: limit.path, detail }, { cause })
  if (encoding !== 'gzip' && encoding !== 'x-gzip') throw invalid('its encoding is not known')
  try {
    const isSmall = packed.length <= atOnceBytes
    const unpacked = isSmall ? gunzipAtOnce(packed, Math.min(atOnceBytes, limit.maxBytes)) : undefined
    return unpacked ?? (await unpack(packed, { maxOutputLength: limit.maxBytes }))
  } catch (error) {
    if (isTooLongUnpacked(error)) throw tooLarge(limit)
    throw invalid('it is no gzip', error)
  }
}

function tooLarge({ maxBytes, path }: { maxBytes: number; path: string }): KasError {
  return new KasError({ code: 'GITLAB_ANSWER_INVALID', path, detail: `it has more than ${maxBytes} bytes` })
}

function reasonOf(error: unknown): string {
  const code = codeOf(error)
  return reasons[code] ?? (/^[A-Z][A-Z0-9_]+$/.test(code) ? code : 'the exchange failed')
}

function codeOf(error: unknown): string {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown }
  return String(code && typeof code === 'string' ? code : name)
}

/** Parses seconds; a date is ignored. */
function parseRetryAfter(value: string): number | undefined {
  return /^\d{1,6}$/.test(value) ? Number(value) * 1000 : undefined
}

function text(value: string | string[] | undefined): string {
  return (Array.isArray(value) ? value[0] : value) ?? ''
}
