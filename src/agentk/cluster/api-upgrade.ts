import type { ClientRequest, IncomingMessage } from 'node:http'
import { request as httpsRequest, type RequestOptions } from 'node:https'
import type { Duplex } from 'node:stream'
import { Deadline } from '../../lib/deadline.ts'
import { readOnAfterFailedWrite } from '../../lib/failed-write.ts'
import { http } from '../../lib/http.ts'
import { pause } from '../../lib/pause.ts'
import { abortable } from '../../lib/signals.ts'
import { DialPatience } from './absence.ts'
import { type ApiClient, dialTimeoutMs } from './api-client.ts'
import type { ApiRequest } from './api-request.ts'
import {
  maxAnswerHeadBytes,
  maxAnswerLines,
  maxInformationalAnswers,
  tooManyBytes,
  tooManyInformational,
  tooManyLines,
} from './head-guard.ts'

/** As in client-go. ms */
const keepAliveMs = 30_000

type TlsRequestOptions = RequestOptions & { ALPNProtocols: string[] }

export type UpgradeAnswer =
  | { readonly kind: 'upgraded'; readonly response: IncomingMessage; readonly socket: Duplex; readonly head: Buffer }
  | { readonly kind: 'refused'; readonly response: IncomingMessage }

/**
 * Asks the API server to change the protocol of a connection that is dialled by HTTP/1.1 for this request alone
 * (doc/reference/tunnel-protocol.md 6.5). A refusal is an ordinary answer. A request that could not be sent waits for
 * the server. A request that got 401 is sent again, once, if the token file has changed since it was sent.
 *
 * @param signal - ends the dial and the wait for the answer; the caller ends the connection afterwards
 * @throws the connection's error, or the signal's reason
 */
export async function upgradeToApi(
  client: ApiClient,
  request: ApiRequest,
  signal: AbortSignal,
): Promise<UpgradeAnswer> {
  const { access } = client
  const { answer, version } = await reach(client, request, signal)
  if (answer.kind !== 'refused' || answer.response.statusCode !== 401) return answer
  access.refresh()
  if (access.version === version) return answer
  answer.response.destroy()
  return (await reach(client, request, signal)).answer
}

/** @returns the answer, and the version of the credentials that were sent */
async function reach(
  client: ApiClient,
  request: ApiRequest,
  signal: AbortSignal,
): Promise<{ answer: UpgradeAnswer; version: number }> {
  const { absence, clock } = client
  if (absence.isLong) await abortable(absence.probe(), signal)
  const patience = new DialPatience(absence)
  for (;;) {
    let reached = false
    const onReached = () => {
      reached = true
      absence.reached()
    }
    try {
      const attempted = attempt(client, request, signal, onReached)
      const { version } = client.access
      return { answer: await attempted, version }
    } catch (error) {
      if (reached || signal.aborted) throw error
      const waitMs = patience.next(error)
      if (waitMs === undefined) throw absence.explain(error)
      await pause(waitMs, clock, signal)
      signal.throwIfAborted()
    }
  }
}

/** @param onReached - called before the first byte of the request is sent */
function attempt(
  client: ApiClient,
  request: ApiRequest,
  signal: AbortSignal,
  onReached: () => void,
): Promise<UpgradeAnswer> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    const outgoing = dial(client, request)
    outgoing.maxHeadersCount = maxAnswerLines + 1 // one more than allowed: node drops further lines without an error
    const reason = () => new Error(`no connection to the API server in ${dialTimeoutMs / 1000} s`)
    const deadline = new Deadline({ ms: dialTimeoutMs, signals: [signal], reason })
    deadline.signal.addEventListener('abort', () => outgoing.destroy(deadline.signal.reason), { once: true })
    outgoing.on('socket', (socket) => {
      socket.setNoDelay(true)
      socket.setKeepAlive(true, keepAliveMs) // an exec may be silent for hours
      socket.once(client.access.server.protocol === 'https:' ? 'secureConnect' : 'connect', () => {
        deadline.lift()
        onReached()
      })
    })
    let informational = 0
    outgoing.on('information', () => {
      informational += 1
      if (informational > maxInformationalAnswers) outgoing.destroy(tooManyInformational())
    })
    const answered = (answer: UpgradeAnswer) => {
      if (outgoing.destroyed) return // node parses on after `destroy`
      if (answer.response.rawHeaders.length > 2 * maxAnswerLines) {
        outgoing.destroy(tooManyLines())
        return
      }
      deadline.end()
      resolve(answer)
    }
    outgoing.on('upgrade', (response, socket, head) => {
      readOnAfterFailedWrite(socket)
      answered({ kind: 'upgraded', response, socket, head })
    })
    outgoing.on('response', (response) => answered({ kind: 'refused', response }))
    outgoing.on('error', (error: NodeJS.ErrnoException) => {
      deadline.end()
      if (signal.aborted) reject(signal.reason)
      else reject(error.code === 'HPE_HEADER_OVERFLOW' ? tooManyBytes(error) : error)
    })
    outgoing.end()
  })
}

/** Methods that clients send without a length; requests of others declare that they have no body. */
const withoutLength = new Set(['GET', 'HEAD'])

/**
 * Sends the head alone: the server reads further bytes as those of the upgraded connection. Without a length, Node adds
 * `Transfer-Encoding: chunked` to most methods and writes the chunk that ends a body.
 */
function dial(client: ApiClient, request: ApiRequest): ClientRequest {
  const { server } = client.access
  const authorization = client.access.authorization()
  const headers = ['Host', server.host, ...(authorization ? ['Authorization', authorization] : []), ...request.headers]
  if (!withoutLength.has(request.method)) headers.push('Content-Length', '0')
  const options = {
    method: request.method,
    host: server.hostname.replace(/^\[|\]$/g, ''),
    port: server.port || (server.protocol === 'https:' ? 443 : 80),
    path: client.fullPath(request.path),
    headers,
    agent: false,
    maxHeaderSize: maxAnswerHeadBytes,
  } as const
  if (server.protocol === 'http:') return http.request(options)
  const tls: TlsRequestOptions = { ...options, ...client.access.tls(), ALPNProtocols: ['http/1.1'] }
  return httpsRequest(tls)
}
