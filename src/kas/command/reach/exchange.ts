import { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import type { Readable } from 'node:stream'
import { BadAnswer } from '../bad-answer.ts'
import { type Endpoint, urlBelow } from '../endpoint.ts'

/** Bound of an answer: kas' own are as long. bytes */
const maxBodyBytes = 4 * 1024 * 1024

export interface KasRequest {
  readonly method: 'GET' | 'PATCH' | 'POST'
  /** path below the prefix of kas, with its query: kas' own, or of the API server behind it */
  readonly path: string
  /** a merge patch; absent: none */
  readonly patch?: object
  /** body that is sent as it is read; absent: none */
  readonly upload?: Upload
  /** media type of a result, whatever the status is; default: an answer with another status than 200 is an error */
  readonly resultType?: string
  /** default: JSON */
  readonly accept?: string
  /** bound of the exchange; default: 15 s */
  readonly timeoutMs?: number
}

/** Body of a request of any length. */
export interface Upload {
  readonly mediaType: string
  /** Called once. An error of the stream ends the exchange and is thrown. */
  open(): Readable
}

export interface KasAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** Progress of an exchange. */
export interface Progress {
  isConnected: boolean
}

/**
 * Sends one request and reads its answer.
 *
 * @throws BadAnswer, Error of the connection
 */
export async function exchange(
  endpoint: Endpoint,
  { method, path, patch, upload, accept = 'application/json' }: KasRequest,
  { signal, progress }: { readonly signal: AbortSignal; readonly progress?: Progress },
): Promise<KasAnswer> {
  const { authorization, tls } = endpoint
  const [pathname = '', query = ''] = path.split('?')
  const url = urlBelow(endpoint, pathname)
  url.search = query
  const request = url.protocol === 'http:' ? requestHttp : requestHttps
  const mediaType = upload?.mediaType ?? (patch && 'application/merge-patch+json')
  const type = mediaType === undefined ? {} : { 'content-type': mediaType }
  const headers = { authorization, accept, ...type }
  return await new Promise<KasAnswer>((resolve, reject) => {
    const asked = request(url, { ...tls, method, signal, headers }, (response) => {
      const { statusCode: status = 0, headers: answered } = response
      bodyOf(response).then((body) => resolve({ status, headers: answered, body }), reject)
    })
    asked.on('socket', (socket) => {
      if (!progress) return
      const connected = () => Object.assign(progress, { isConnected: true })
      if (socket.connecting) socket.once('connect', connected)
      else connected()
    })
    asked.on('error', reject)
    if (upload) send(upload.open(), asked)
    else asked.end(patch && JSON.stringify(patch))
  })
}

/** Sends the stream. It is closed once the answer is complete, which may come before all is sent. */
function send(body: Readable, asked: ClientRequest): void {
  body.on('error', (error) => asked.destroy(error))
  asked.on('close', () => body.destroy())
  asked.on('response', (response: IncomingMessage) => response.on('close', () => asked.destroy()))
  body.pipe(asked)
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
