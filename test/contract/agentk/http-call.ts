import { type Serve, SplitMessage } from '../../../src/agentk/tunnels/serve.ts'
import type { AgentId, Call, Outcome } from '../../../src/call/call.ts'
import { kasCaller } from '../../../src/call/caller.ts'
import type {
  Headers,
  HttpRequestHeader,
  HttpResponseHeader,
  HttpResponseMessage,
} from '../../../src/proto/http/http-message.ts'
import { decodeHttpResponse, encodeHttpRequest, kubernetesApiMethod } from '../../../src/proto/http/http-over-grpc.ts'

/** Messages that the test writes and the module reads. */
export class Outgoing implements AsyncIterableIterator<Uint8Array> {
  readonly #queue: Uint8Array[] = []
  #ended = false
  #reader: PromiseWithResolvers<IteratorResult<Uint8Array>> | undefined

  push(...messages: Uint8Array[]): this {
    this.#queue.push(...messages)
    this.#wake()
    return this
  }

  end(): this {
    this.#ended = true
    this.#wake()
    return this
  }

  next(): Promise<IteratorResult<Uint8Array>> {
    this.#reader = Promise.withResolvers()
    const { promise } = this.#reader
    this.#wake()
    return promise
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  #wake(): void {
    const reader = this.#reader
    if (!reader || (this.#queue.length === 0 && !this.#ended)) return
    this.#reader = undefined
    const value = this.#queue.shift()
    reader.resolve(value ? { value, done: false } : { value: undefined, done: true })
  }
}

export interface Answer {
  readonly header: HttpResponseHeader
  readonly body: Buffer
  /** kinds of the messages in order, without repetitions */
  readonly kinds: string[]
  readonly outcome: Outcome
}

export function callOf(messages: AsyncIterable<Uint8Array>, signal = new AbortController().signal): Call {
  return {
    agentId: 1n as AgentId,
    method: kubernetesApiMethod,
    metadata: {},
    messages,
    safety: 'unsafe',
    caller: kasCaller,
    signal,
  }
}

export interface RequestInit extends Partial<Omit<HttpRequestHeader, 'contentLength'>> {
  readonly headers?: Record<string, string>
  /** null: kas does not send the length */
  readonly contentLength?: number | null
}

export function requestHeader({ headers, contentLength = 0, ...rest }: RequestInit = {}) {
  const header: Headers = Object.entries(headers ?? {}).map(([name, value]) => [name, [value]])
  const length = contentLength === null ? {} : { contentLength }
  return encodeHttpRequest.header({ method: 'GET', urlPath: '/', query: [], header, ...length, ...rest })
}

/** Returns a whole request with its body, as kas sends it. */
export function wholeRequest(init: RequestInit = {}, ...body: string[]): Outgoing {
  const data = body.map((chunk) => encodeHttpRequest.data(Buffer.from(chunk)))
  return new Outgoing().push(requestHeader(init), ...data, encodeHttpRequest.trailer).end()
}

/** Decodes a message of the answer, whole or split. */
export function decodeMessage(message: Uint8Array | SplitMessage): HttpResponseMessage {
  const whole = message instanceof SplitMessage ? Buffer.concat([message.head, ...message.payload]) : message
  return decodeHttpResponse(whole)
}

/** Makes the call and reads the answer to its end. */
export async function exchange(forward: Serve, messages: AsyncIterable<Uint8Array>): Promise<Answer> {
  const reply = await forward(callOf(messages))
  const kinds: string[] = []
  const chunks: Uint8Array[] = []
  let header: HttpResponseHeader | undefined
  for await (const bytes of reply.messages) {
    const message = decodeMessage(bytes)
    if (kinds.at(-1) !== message.kind) kinds.push(message.kind)
    if (message.kind === 'header') header = message.header
    else if (message.kind === 'data' || message.kind === 'upgradeData') chunks.push(message.data)
  }
  return { header: header as HttpResponseHeader, body: Buffer.concat(chunks), kinds, outcome: await reply.done }
}

export function headerValues(header: HttpResponseHeader, name: string): string[] | undefined {
  return header.header.find(([each]) => each === name)?.[1]
}
