import type { ServerInterceptingCallInterface } from '@grpc/grpc-js'
import { type Metadata, noMetadata, type Outcome } from '../../../call/call.ts'
import { Code, KasError } from '../../../lib/errors.ts'
import { maxUnsentBytes } from '../../../proto/grpc/limits.ts'
import { fromGrpc, toGrpc } from './grpc-metadata.ts'

/** A timer may fire this long before its time. ms */
const timerSlackMs = 2

/**
 * One call at its server, as bytes, on top of grpc-js' interceptors. A message is read only when it is asked for. Sent
 * messages count until the connection has taken them, which grpc-js' own streams do not do.
 */
export class RailsCall implements AsyncIterableIterator<Uint8Array> {
  /** `/package.Service/Method` */
  readonly method: string
  readonly counts = { received: 0, sent: 0 }
  /** resolves when the stream has ended and all sent messages have left */
  readonly closed: Promise<void>
  readonly #closed = Promise.withResolvers<void>()
  readonly #grpc: ServerInterceptingCallInterface
  readonly #controller = new AbortController()
  #metadata = noMetadata
  #waiting: PromiseWithResolvers<IteratorResult<Uint8Array>> | undefined
  #ended = false
  #finished = false
  #begun = false
  #unsentBytes = 0
  #room: PromiseWithResolvers<void> | undefined

  /** Creates the call, and calls `run` once its metadata has come. */
  static start(method: string, grpc: ServerInterceptingCallInterface, run: (call: RailsCall) => void): void {
    const call = new RailsCall(method, grpc)
    grpc.start({
      onReceiveMetadata: (metadata) => {
        call.#metadata = fromGrpc(metadata)
        run(call)
      },
      onReceiveMessage: (message: Uint8Array) => call.#onMessage(message),
      onReceiveHalfClose: () => call.#onHalfClose(),
      onCancel: () => call.#onCancel(),
    })
  }

  private constructor(method: string, grpc: ServerInterceptingCallInterface) {
    this.method = method
    this.#grpc = grpc
    this.closed = this.#closed.promise
  }

  /** address of the caller, `address:port` */
  get remote(): string {
    return this.#grpc.getPeer()
  }

  get metadata(): Metadata {
    return this.#metadata
  }

  /** Aborts with a KasError when the caller cancels, its deadline passes or its connection is lost. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Reads the next message, for one reader at a time. Ends at the half-close; rejects with the signal's reason. */
  next(): Promise<IteratorResult<Uint8Array>> {
    if (this.signal.aborted) return Promise.reject(this.signal.reason)
    if (this.#ended) return Promise.resolve({ value: undefined, done: true })
    if (this.#waiting) return Promise.reject(new Error('messages are read by one reader, one at a time'))
    this.#waiting = Promise.withResolvers()
    const { promise } = this.#waiting
    this.#grpc.startRead()
    return promise
  }

  return(): Promise<IteratorResult<Uint8Array>> {
    this.#ended = true
    return Promise.resolve({ value: undefined, done: true })
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  /** Sends response headers: at most once, and before the first message. */
  sendMetadata(metadata: Metadata): void {
    if (this.#begun) throw new Error('sendMetadata after the first message')
    this.#begun = true
    this.#grpc.sendMetadata(toGrpc(metadata))
  }

  /** @returns undefined: go on; else a promise of room. Messages to a caller that left are dropped. */
  send(message: Uint8Array): Promise<void> | undefined {
    if (this.#finished || this.signal.aborted) return undefined
    this.#begun = true
    this.counts.sent++
    this.#unsentBytes += message.length
    this.#grpc.sendMessage(message, () => this.#onSent(message.length))
    if (this.#unsentBytes <= maxUnsentBytes) return undefined
    this.#room ??= Promise.withResolvers()
    return this.#room.promise
  }

  /** Ends the call; only the first end counts. */
  finish({ error, trailers }: Outcome): void {
    if (this.#finished) return
    this.#finished = true
    const metadata = toGrpc(trailers)
    if (error?.spec.code === 'STATUS' && error.spec.details) {
      metadata.set('grpc-status-details-bin', Buffer.from(error.spec.details))
    }
    this.#grpc.sendStatus({ code: error?.grpcCode ?? Code.OK, details: error?.message ?? 'OK', metadata })
  }

  #onMessage(message: Uint8Array): void {
    this.counts.received++
    this.#settle({ value: message, done: false })
  }

  #onHalfClose(): void {
    this.#ended = true
    this.#settle({ value: undefined, done: true })
  }

  #settle(result: IteratorResult<Uint8Array>): void {
    const waiting = this.#waiting
    this.#waiting = undefined
    waiting?.resolve(result)
  }

  #onSent(bytes: number): void {
    this.#unsentBytes -= bytes
    if (this.#unsentBytes <= maxUnsentBytes / 2) this.#makeRoom()
  }

  #makeRoom(): void {
    this.#room?.resolve()
    this.#room = undefined
  }

  /** Notes the end of the stream: by kas, or by the caller or its connection. */
  #onCancel(): void {
    this.#closed.resolve()
    this.#makeRoom()
    const late = Number(this.#grpc.getDeadline()) <= Date.now() + timerSlackMs
    const reason = late ? ({ code: 'DEADLINE_EXCEEDED' } as const) : ({ code: 'CANCELLED' } as const)
    const error = new KasError(reason)
    this.#waiting?.promise.catch(() => undefined) // the reader may have left
    this.#waiting?.reject(error)
    this.#waiting = undefined
    if (!this.#finished) this.#controller.abort(error)
  }
}
