import { type Call, type Forward, noMetadata, type Outcome } from '../../../src/call/call.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { abortable } from '../../../src/lib/signals.ts'
import type { Headers, HttpRequestHeader, HttpRequestMessage } from '../../../src/proto/http/http-message.ts'
import { decodeHttpRequest, encodeHttpResponse, httpMessageOrder } from '../../../src/proto/http/http-over-grpc.ts'
import { MessageOrder } from '../../../src/proto/wire/message-order.ts'

/** One request as the agent gets it. */
export interface ClusterRequest {
  readonly call: Call
  readonly header: HttpRequestHeader
  /** messages after the header, in order */
  readonly messages: AsyncIterator<HttpRequestMessage>
  /** Returns the whole body. */
  body(): Promise<Buffer>
}

/** Yields encoded messages. Throws the error with which the call ends. */
export type Cluster = (request: ClusterRequest) => AsyncGenerator<Uint8Array, void, void>

export const head = (statusCode: number, header: Headers = [], text = 'OK') =>
  encodeHttpResponse.header({ statusCode, status: `${statusCode} ${text}`, header })
export const data = (text: string | Uint8Array) => encodeHttpResponse.data(Buffer.from(text))
export const { trailer } = encodeHttpResponse

/** Returns a Forward that plays the tunnel, the agent and its cluster. */
export function clusterForward(cluster: Cluster): Forward {
  return async (call) => {
    const done = Promise.withResolvers<Outcome>()
    const end = (error?: unknown) =>
      done.resolve({ trailers: noMetadata, ...(error ? { error: KasError.from(error) } : {}) })
    return {
      metadata: Promise.resolve(noMetadata),
      messages: run(cluster, call, end),
      done: done.promise,
    }
  }
}

async function* run(
  cluster: Cluster,
  call: Call,
  end: (error?: unknown) => void,
): AsyncGenerator<Uint8Array, void, void> {
  try {
    const messages = decoded(call)
    const first = await messages.next()
    if (first.done || first.value.kind !== 'header') throw new Error('no header')
    const request = { call, header: first.value.header, messages, body: () => wholeBody(messages) }
    const answers = cluster(request)
    for (;;) {
      const next = await abortable(answers.next(), call.signal)
      if (next.done) break
      yield next.value
    }
    end()
  } catch (error) {
    end(error)
  } finally {
    end(new KasError({ code: 'CANCELLED' }))
  }
}

async function* decoded(call: Call): AsyncGenerator<HttpRequestMessage> {
  const order = new MessageOrder(httpMessageOrder)
  for await (const bytes of call.messages) {
    const message = decodeHttpRequest(bytes)
    order.accept(message.kind)
    yield message
  }
  order.end()
}

async function wholeBody(messages: AsyncIterator<HttpRequestMessage>): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  for (;;) {
    const { done, value } = await messages.next()
    if (done) return Buffer.concat(chunks)
    if (value.kind === 'data') chunks.push(value.data)
  }
}

/** Answers with the request, as JSON. */
export const echo: Cluster = async function* ({ header, body, call }) {
  const text = JSON.stringify({ ...header, body: (await body()).toString(), safety: call.safety })
  yield head(200, [
    ['Content-Type', ['application/json']],
    ['Content-Length', [String(Buffer.byteLength(text))]],
  ])
  yield data(text)
  yield trailer
}
