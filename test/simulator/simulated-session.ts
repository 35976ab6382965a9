import { type Metadata, noMetadata, type Outcome } from '../../src/call/call.ts'
import { KasError } from '../../src/lib/errors.ts'
import type { OpenOptions } from '../../src/proto/grpc/client-session.ts'
import { resetStatus } from '../../src/proto/grpc/headers.ts'
import { defaultLimits } from '../../src/proto/grpc/limits.ts'
import type { Handler, ServerStream } from '../../src/proto/grpc/server-stream.ts'
import { SimulatedInbox } from './simulated-inbox.ts'
import type { WireEnd } from './simulated-network.ts'

/** error code of HTTP/2 */
const internalError = 2

/** gRPC between two machines: sessions and streams behave as those of src/proto/grpc, without bytes of HTTP/2. */

/** the two sides of one stream, and the messages on their way between them */
interface Exchange {
  readonly client: SimulatedClientStream
  server: SimulatedServerStream | undefined
  readonly toServer: StreamWay
  readonly toClient: StreamWay
}

/** One direction of one stream: it may stop while the connection goes on. */
class StreamWay {
  #waiting: (() => void)[] | undefined

  pass(action: () => void): void {
    if (this.#waiting) this.#waiting.push(action)
    else action()
  }

  hold(): void {
    this.#waiting ??= []
  }

  release(): void {
    const waiting = this.#waiting ?? []
    this.#waiting = undefined
    for (const action of waiting) action()
  }
}

abstract class SimulatedSession {
  readonly closed: Promise<void>
  readonly wire: WireEnd
  readonly #closed = Promise.withResolvers<void>()
  readonly #pings = new Set<PromiseWithResolvers<number>>()

  constructor(wire: WireEnd) {
    this.wire = wire
    this.closed = this.#closed.promise
    wire.onClose = () => {
      this.lose()
      for (const { reject } of this.#pings) reject(new KasError({ code: 'TUNNEL_LOST', delivery: 'none' }))
      this.#closed.resolve()
    }
    // it ended in the moment of its begin, before anything listened
    if (wire.closed) queueMicrotask(() => wire.onClose())
  }

  protected abstract lose(): void

  get destroyed(): boolean {
    return this.wire.closed
  }

  get bytesRead(): number {
    return this.wire.bytesRead
  }

  ping(): Promise<number> {
    const answer = Promise.withResolvers<number>()
    if (this.wire.closed) answer.reject(new KasError({ code: 'TUNNEL_LOST', delivery: 'none' }))
    this.#pings.add(answer)
    this.wire.send(() =>
      this.wire.peer.send(() => {
        this.#pings.delete(answer)
        answer.resolve(0)
      }),
    )
    return answer.promise
  }

  destroy(): void {
    this.wire.close()
  }
}

export class SimulatedClientSession extends SimulatedSession {
  readonly limits = defaultLimits
  draining = false
  readonly #onDraining: (() => void)[] = []
  readonly streams = new Set<SimulatedClientStream>()
  /** session at the other end of the wire */
  server!: SimulatedServerSession
  #closing = false

  /** Opens no more streams; ends with the last running one. */
  close(): void {
    this.#closing = true
    this.drain()
    this.#endIfIdle()
  }

  ended(stream: SimulatedClientStream): void {
    this.streams.delete(stream)
    this.#endIfIdle()
  }

  #endIfIdle(): void {
    if (this.#closing && this.streams.size === 0) this.wire.close()
  }

  /** Calls `listener` once, when GOAWAY has come, or the end. */
  onDraining(listener: () => void): void {
    if (this.draining) listener()
    else this.#onDraining.push(listener)
  }

  drain(): void {
    if (this.draining) return
    this.draining = true
    for (const listener of this.#onDraining.splice(0)) listener()
  }

  protected lose(): void {
    this.drain()
    for (const stream of [...this.streams]) stream.settle(lost())
  }

  open({ method, metadata = noMetadata, onInterim }: OpenOptions): SimulatedClientStream {
    if (this.draining) throw new KasError({ code: 'TUNNEL_LOST', delivery: 'none' })
    const stream = new SimulatedClientStream(this, method, onInterim)
    this.streams.add(stream)
    this.wire.send(() => this.server.accept(stream.exchange, method, metadata))
    return stream
  }
}

export class SimulatedClientStream {
  readonly method: string
  readonly metadata: Promise<Metadata | undefined>
  readonly done: Promise<Outcome>
  readonly exchange: Exchange = {
    client: this,
    server: undefined,
    toServer: new StreamWay(),
    toClient: new StreamWay(),
  }
  readonly inbox: SimulatedInbox
  /** always 0: bytes are not counted here */
  readonly unsentBytes = 0
  wasReset = false
  readonly #session: SimulatedClientSession
  readonly #onInterim: ((metadata: Metadata) => void) | undefined
  readonly #metadata = Promise.withResolvers<Metadata | undefined>()
  readonly #done = Promise.withResolvers<Outcome>()
  #settled = false

  constructor(session: SimulatedClientSession, method: string, onInterim: ((metadata: Metadata) => void) | undefined) {
    this.method = method
    this.#session = session
    this.#onInterim = onInterim
    this.metadata = this.#metadata.promise
    this.done = this.#done.promise
    this.inbox = new SimulatedInbox(() => this.cancel(new KasError({ code: 'CANCELLED', detail: 'the reader left' })))
  }

  get wire(): WireEnd {
    return this.#session.wire
  }

  /** Ends with the reply, also with a failed one. */
  get messages(): AsyncIterable<Uint8Array> {
    const inbox = this.inbox
    const done: IteratorResult<Uint8Array> = { value: undefined, done: true }
    const iterator = { next: () => inbox.next().catch(() => done), return: () => inbox.return() }
    return { [Symbol.asyncIterator]: () => iterator }
  }

  send(payload: Uint8Array, head?: Uint8Array): undefined {
    if (this.#settled) return
    const message = joined(payload, head)
    this.#toServer(() => this.exchange.server?.messages.add(message))
  }

  /** Has no effect: messages here have no size. */
  limit(): void {}

  /** Has no effect: bytes are not counted here. */
  chargeTo(): void {}
  receives(): void {}

  end(): void {
    if (!this.#settled) this.#toServer(() => this.exchange.server?.messages.end())
  }

  cancel(reason: KasError = new KasError({ code: 'CANCELLED' })): void {
    if (this.#settled) return
    this.settle({ error: reason, trailers: noMetadata })
    this.#session.wire.send(() => this.exchange.server?.cancelled())
  }

  onClosed(listener: () => void): void {
    void this.done.then(listener)
  }

  /** Breaks the stream, and both sides learn of it; the connection goes on. */
  break(): void {
    if (this.#settled) return
    this.broken()
    this.#session.wire.send(() => this.exchange.server?.cancelled())
  }

  #toServer(action: () => void): void {
    this.#session.wire.send(() => this.exchange.toServer.pass(action))
  }

  // calls of the server

  broken(): void {
    this.wasReset = true
    this.settle({ error: resetStatus(internalError), trailers: noMetadata })
  }

  interim(metadata: Metadata): void {
    if (!this.#settled) this.#onInterim?.(metadata)
  }

  head(metadata: Metadata): void {
    this.#metadata.resolve(metadata)
  }

  message(message: Uint8Array): void {
    this.inbox.add(message)
  }

  finish(outcome: Outcome): void {
    this.inbox.end()
    this.settle(outcome)
  }

  settle(outcome: Outcome): void {
    if (this.#settled) return
    this.#settled = true
    this.#session.ended(this)
    this.#metadata.resolve(undefined)
    if (outcome.error) this.inbox.fail(outcome.error)
    this.#done.resolve(outcome)
  }
}

export class SimulatedServerSession extends SimulatedSession {
  readonly limits = defaultLimits
  readonly streams = new Set<SimulatedServerStream>()
  readonly #handlerFor: (method: string, metadata: Metadata) => Handler
  #client: SimulatedClientSession
  #closing = false

  /** @param client - the session at the other end of `wire` */
  constructor(
    wire: WireEnd,
    client: SimulatedClientSession,
    handlerFor: (method: string, metadata: Metadata) => Handler,
  ) {
    super(wire)
    this.#handlerFor = handlerFor
    this.#client = client
    client.server = this
  }

  /** Sends GOAWAY: no new streams; ends with the last running one. */
  close(): void {
    if (this.#closing) return
    this.#closing = true
    this.wire.send(() => this.#client.drain())
    this.#endIfIdle()
  }

  protected lose(): void {
    for (const stream of [...this.streams]) stream.lost()
  }

  accept(exchange: Exchange, method: string, metadata: Metadata): void {
    if (this.#closing) {
      this.wire.send(() => exchange.client.settle(lost('none')))
      return
    }
    const stream = new SimulatedServerStream(this, exchange, method, metadata)
    exchange.server = stream
    this.streams.add(stream)
    void stream.run(this.#handlerFor(method, metadata))
  }

  /** Has no effect: the ledger finds the result of a fault. */
  onHandlerError(): void {}

  ended(stream: SimulatedServerStream): void {
    this.streams.delete(stream)
    this.#endIfIdle()
  }

  #endIfIdle(): void {
    if (this.#closing && this.streams.size === 0) this.wire.close()
  }
}

export class SimulatedServerStream {
  readonly method: string
  readonly metadata: Metadata
  readonly session: SimulatedServerSession
  readonly messages = new SimulatedInbox(() => undefined)
  readonly #exchange: Exchange
  readonly #client: SimulatedClientStream
  readonly #controller = new AbortController()
  #hasHead = false
  #finished = false
  #trailers: Metadata = noMetadata

  constructor(session: SimulatedServerSession, exchange: Exchange, method: string, metadata: Metadata) {
    this.session = session
    this.#exchange = exchange
    this.#client = exchange.client
    this.method = method
    this.metadata = metadata
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  sendInterim(metadata: Metadata): void {
    if (!this.#finished && !this.#hasHead) this.#toClient(() => this.#client.interim(metadata))
  }

  sendMetadata(metadata: Metadata): void {
    if (this.#hasHead) throw new Error('sendMetadata after the first message')
    this.#hasHead = true
    if (!this.#finished) this.#toClient(() => this.#client.head(metadata))
  }

  /** Has no effect: messages here have no size. */
  limit(): void {}

  /** Has no effect: bytes are not counted here. */
  chargeTo(): void {}
  payBy(): void {}
  receives(): void {}
  onFault(): void {}

  forgetMetadata(): void {}

  onSent(listener: () => void): void {
    listener()
  }

  onClosed(listener: () => void): void {
    void this.session.closed.then(listener)
  }

  addTrailers(metadata: Metadata): void {
    this.#trailers = { ...this.#trailers, ...metadata }
  }

  send(payload: Uint8Array, head?: Uint8Array): undefined {
    if (this.#finished) return
    if (!this.#hasHead) this.sendMetadata({})
    const message = joined(payload, head)
    this.#toClient(() => this.#client.message(message))
  }

  async run(handler: Handler): Promise<void> {
    try {
      const trailers = await handler(this as unknown as ServerStream)
      this.#finish(undefined, trailers ?? noMetadata)
    } catch (error) {
      this.#finish(KasError.from(error), noMetadata)
    }
  }

  cancelled(): void {
    this.#fail(new KasError({ code: 'CANCELLED', detail: 'the caller cancelled' }))
  }

  lost(): void {
    this.#fail(new KasError({ code: 'TUNNEL_LOST', delivery: 'maybe' }))
  }

  /** Breaks the stream as the other side's `break` does. */
  break(): void {
    if (this.#finished) return
    this.cancelled()
    this.session.wire.send(() => this.#client.broken())
  }

  #fail(error: KasError): void {
    this.#finished = true
    this.session.streams.delete(this)
    if (this.messages.fail(error)) this.#controller.abort(error)
  }

  #finish(error: KasError | undefined, own: Metadata): void {
    if (this.#finished) return
    this.#finished = true
    const trailers = { ...this.#trailers, ...own }
    const status = error && new KasError({ code: 'STATUS', grpc: error.grpcCode, message: error.message })
    this.#toClient(() => this.#client.finish({ ...(status ? { error: status } : {}), trailers }))
    this.session.ended(this)
    // the caller is asked to stop: its further messages are dropped
    this.#fail(new KasError({ code: 'CANCELLED', detail: 'the caller cancelled' }))
  }

  #toClient(action: () => void): void {
    this.session.wire.send(() => this.#exchange.toClient.pass(action))
  }
}

function joined(payload: Uint8Array, head: Uint8Array | undefined): Uint8Array {
  return head ? Buffer.concat([head, payload]) : payload
}

function lost(delivery: 'none' | 'maybe' = 'maybe'): Outcome {
  return { error: new KasError({ code: 'TUNNEL_LOST', delivery }), trailers: noMetadata }
}
