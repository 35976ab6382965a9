import type { IncomingMessage } from 'node:http'
import type { Duplex, Readable } from 'node:stream'
import { type Call, noMetadata } from '../../../call/call.ts'
import { KasError } from '../../../lib/errors.ts'
import type { HttpRequestHeader } from '../../../proto/http/http-message.ts'
import type { HttpRequestMessages } from '../../../proto/http/http-request-messages.ts'
import type { ApiClient } from '../../cluster/api-client.ts'
import type { ApiRequest } from '../../cluster/api-request.ts'
import { upgradeToApi } from '../../cluster/api-upgrade.ts'
import type { ServeReply } from '../../tunnels/serve.ts'
import type { ApiSpan } from './api-span.ts'
import { responseHeader } from './passed-headers.ts'
import { apiError, ResponseMessages } from './response-messages.ts'

const metadata = Promise.resolve(noMetadata)

/**
 * Forwards a request that changes the protocol: SPDY or WebSocket, opaque bytes both ways after 101.
 * The caller's half-close half-closes the connection to the server, whose bytes still pass.
 * When the server ends the connection, the call ends (doc/reference/tunnel-protocol.md 6.5).
 *
 * @throws KasError when the server cannot be reached
 */
export async function forwardUpgrade(
  client: ApiClient,
  call: Call,
  messages: HttpRequestMessages<HttpRequestHeader>,
  request: ApiRequest,
  { via, span }: { via: string; span: ApiSpan },
): Promise<ServeReply> {
  const trailer = await messages.next()
  if (trailer?.kind !== 'trailer') {
    throw new KasError({ code: 'INVALID_MESSAGE', detail: 'a request with an Upgrade header has no body' })
  }
  const answer = await upgradeToApi(client, request, call.signal).catch((error: unknown) => {
    throw apiError(error)
  })
  const { response } = answer
  span.answered(response.statusCode as number)
  const stream: Duplex | IncomingMessage = answer.kind === 'upgraded' ? answer.socket : response
  const reply = new ResponseMessages({
    pause: () => stream.pause(),
    resume: () => stream.resume(),
    cancel: () => stream.destroy(),
  })
  reply.header(responseHeader(response.statusCode as number, response.statusMessage ?? '', response.rawHeaders, via))
  if (answer.kind === 'upgraded') {
    reply.data(answer.head)
    void send(messages, answer.socket)
  } else {
    void messages.discard({ bodyAllowed: false }).catch((error: unknown) => stream.destroy(error as Error))
  }
  pipe(stream, reply, call.signal)
  return { metadata, messages: reply, done: reply.done }
}

/** Passes the server's bytes to the reply. A stream that closes before its end is an error. */
function pipe(stream: Readable, reply: ResponseMessages, signal: AbortSignal): void {
  const onAbort = () => stream.destroy(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  stream.on('data', (chunk: Buffer) => reply.data(chunk))
  stream.on('end', () => {
    reply.end()
    stream.destroy()
  })
  stream.on('error', (error) => reply.fail(error))
  stream.on('close', () => {
    signal.removeEventListener('abort', onAbort)
    reply.fail(new Error('the connection to the API server closed'))
  })
  if (signal.aborted) onAbort()
}

/** Passes the caller's bytes to the server, as fast as the server accepts them. */
async function send(messages: HttpRequestMessages<HttpRequestHeader>, socket: Duplex): Promise<void> {
  try {
    for (let message = await messages.next(); message; message = await messages.next()) {
      if (message.kind !== 'upgradeData' || socket.destroyed) continue
      if (!socket.write(message.data)) await room(socket)
    }
    socket.end()
  } catch (error) {
    socket.destroy(error as Error)
  }
}

/** Resolves when the socket accepts more data, or is closed. */
function room(socket: Duplex): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      socket.off('drain', done)
      socket.off('close', done)
      resolve()
    }
    socket.on('drain', done)
    socket.on('close', done)
    if (socket.destroyed || !socket.writableNeedDrain) done()
  })
}
