import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { printable } from '../../lib/printable.ts'
import { BadAnswer } from './bad-answer.ts'
import { type Endpoint, urlBelow } from './endpoint.ts'

/** kas answers with 3 MiB at most */
const maxBodyBytes = 4 * 1024 * 1024
/** characters of what something in front of kas refuses with */
const maxForeignText = 300
/** characters of a `Status` that are shown */
const maxMessage = 1000
const timeoutMs = 15_000

export interface KasRequest {
  readonly method: 'GET' | 'PATCH'
  /** below the prefix of kas: its own, or of the API server behind it; with its query */
  readonly path: string
  /** a merge patch; absent: none */
  readonly patch?: object
  /** default: JSON */
  readonly accept?: string
}

/** @returns the body. @throws BadAnswer, Error with what kas answered */
export async function askKas(
  endpoint: Endpoint,
  { method, path, patch, accept = 'application/json' }: KasRequest,
): Promise<string> {
  const { authorization, tls } = endpoint
  const [pathname = '', query = ''] = path.split('?')
  const url = urlBelow(endpoint, pathname)
  url.search = query
  const request = url.protocol === 'http:' ? requestHttp : requestHttps
  const signal = AbortSignal.timeout(timeoutMs)
  const type = patch && { 'content-type': 'application/merge-patch+json' }
  const headers = { authorization, accept, ...type }
  const answer = await new Promise<{ status: number; body: string }>((resolve, reject) => {
    const asked = request(url, { ...tls, method, signal, headers }, (response) => {
      bodyOf(response).then((body) => resolve({ status: response.statusCode ?? 0, body }), reject)
    })
    asked.on('error', reject).end(patch && JSON.stringify(patch))
  })
  if (answer.status === 200) return answer.body
  throw new KasRefused(answer.status, answer.body)
}

async function bodyOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxBodyBytes) throw new BadAnswer(`it has more than ${maxBodyBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** kas has answered, but not with what was asked for. */
export class KasRefused extends Error {
  override readonly name = 'KasRefused'
  readonly status: number

  constructor(status: number, body: string) {
    const message = statusMessage(body) ?? body.slice(0, maxForeignText)
    super(printable(`kas answered ${status}${message === '' ? '' : `: ${message}`}`))
    this.status = status
  }
}

/**
 * What kas answers with is a Status of Kubernetes, what stands in front of it may answer with anything.
 *
 * @returns its message; undefined: it is none
 */
export function statusMessage(body: string): string | undefined {
  try {
    const { message } = Object(JSON.parse(body)) as { message?: unknown }
    return typeof message === 'string' ? message.slice(0, maxMessage) : undefined
  } catch {
    return undefined // no JSON: it is not from kas
  }
}
