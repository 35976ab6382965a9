import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { printable } from '../../../lib/printable.ts'
import { BadAnswer } from '../bad-answer.ts'
import type { Endpoint } from './endpoint.ts'
import { statusMessage } from './status-message.ts'

/** kas answers with 3 MiB at most */
const maxBodyBytes = 4 * 1024 * 1024
/** characters of what something in front of kas refuses with */
const maxForeignText = 300
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
  { url: views, authorization, tls }: Endpoint,
  { method, path, patch, accept = 'application/json' }: KasRequest,
): Promise<string> {
  const url = new URL(views)
  url.protocol = views.protocol === 'ws:' ? 'http:' : 'https:'
  const [pathname = '', query = ''] = path.split('?')
  url.pathname = `${views.pathname.replace(/\/views$/, '')}${pathname}`
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
