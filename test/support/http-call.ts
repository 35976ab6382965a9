import { type AgentId, type Forward, noMetadata, type Outcome, type Reply, type Safety } from '../../src/call/call.ts'
import { kasCaller } from '../../src/call/caller.ts'
import type { HttpRequestHeader, HttpResponseHeader } from '../../src/proto/http/http-message.ts'
import {
  decodeHttpResponse,
  encodeHttpRequest,
  httpMessageOrder,
  kubernetesApiMethod,
} from '../../src/proto/http/http-over-grpc.ts'
import { MessageOrder } from '../../src/proto/wire/message-order.ts'

const chunkBytes = 32 * 1024

export interface HttpCall {
  readonly agentId: AgentId
  readonly path: string
  readonly method?: string
  /** names as Go spells them */
  readonly header?: Readonly<Record<string, string>>
  /** absent: no body, as a content length of 0 shows */
  readonly body?: Uint8Array | AsyncIterable<Uint8Array>
  /** sends it as if its length were unknown */
  readonly hideLength?: boolean
  /** bytes for the upgraded connection; the call ends its side with them */
  readonly upgradeData?: AsyncIterable<Uint8Array>
  readonly more?: Partial<HttpRequestHeader>
  readonly signal?: AbortSignal
}

/** The answer; `end` has its outcome, once `data` is read. */
export interface HttpAnswer {
  readonly header: HttpResponseHeader | undefined
  /** the body, then bytes of an upgraded connection */
  readonly data: AsyncIterable<Uint8Array>
  readonly end: Promise<Outcome>
}

/**
 * Makes an HTTP request to an agent's cluster, as an entry does (doc/reference/tunnel-protocol.md 1.3), and checks the
 * answer's order.
 */
export async function httpCall(forward: Forward, call: HttpCall): Promise<HttpAnswer> {
  const method = call.method ?? 'GET'
  const safety: Safety = method === 'GET' && !call.upgradeData ? 'safe' : 'unsafe'
  const reply = await forward({
    agentId: call.agentId,
    method: kubernetesApiMethod,
    metadata: noMetadata,
    messages: requestMessages(call, method),
    safety,
    caller: kasCaller,
    signal: call.signal ?? new AbortController().signal,
  })
  return readAnswer(reply)
}

/** Returns the whole answer, as text. @throws the KasError with which the call ended */
export async function httpText(
  forward: Forward,
  call: HttpCall,
): Promise<{ status: number; header: Map<string, string[]>; text: string }> {
  const answer = await httpCall(forward, call)
  const chunks: Uint8Array[] = []
  for await (const chunk of answer.data) chunks.push(chunk)
  const { error } = await answer.end
  if (error) throw error
  const { statusCode, header } = answer.header as HttpResponseHeader
  return { status: statusCode, header: new Map(header), text: Buffer.concat(chunks).toString() }
}

async function* requestMessages(call: HttpCall, method: string): AsyncGenerator<Uint8Array, void, void> {
  const { body, upgradeData, hideLength } = call
  const length = body instanceof Uint8Array ? body.length : body ? undefined : 0
  yield encodeHttpRequest.header({
    method,
    urlPath: call.path,
    query: [],
    header: Object.entries(call.header ?? {}).map(([name, value]) => [name, [value]]),
    ...(length === undefined || hideLength ? {} : { contentLength: length }),
    ...call.more,
  })
  if (body instanceof Uint8Array) {
    for (let at = 0; at < body.length; at += chunkBytes)
      yield encodeHttpRequest.data(body.subarray(at, at + chunkBytes))
  } else if (body) {
    for await (const chunk of body) yield encodeHttpRequest.data(chunk)
  }
  yield encodeHttpRequest.trailer
  if (upgradeData) for await (const chunk of upgradeData) yield encodeHttpRequest.upgradeData(chunk)
}

async function readAnswer(reply: Reply): Promise<HttpAnswer> {
  const messages = reply.messages[Symbol.asyncIterator]()
  const order = new MessageOrder(httpMessageOrder)
  const next = async () => {
    const result = await messages.next()
    if (result.done) return undefined
    const message = decodeHttpResponse(result.value)
    order.accept(message.kind)
    return message
  }
  const first = await next()
  async function* data() {
    try {
      for (let message = await next(); message; message = await next()) if ('data' in message) yield message.data
      if (first && !(await reply.done).error) order.end()
    } finally {
      await messages.return?.()
    }
  }
  return { header: first?.kind === 'header' ? first.header : undefined, data: data(), end: reply.done }
}
