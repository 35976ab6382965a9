import type { OutgoingHttpHeaders } from 'node:http2'
import { type Metadata, noMetadata } from '../../call/call.ts'
import { KasError } from '../../lib/errors.ts'
import { readMetadata, writeMetadata, writeStatus } from './headers.ts'
import type { Inbox } from './inbox.ts'
import {
  begunKey,
  checkMessage,
  decodeCall,
  encodeHeaders,
  endFrame,
  forbidden,
  frameKind,
  type HeaderKind,
  malformed,
  messageHead,
} from './lane-frames.ts'
import type { ServerStream } from './server-stream.ts'
import type { UnreadBytes } from './unread-bytes.ts'

/** One call, as its server uses it: on a stream of its own, or on a lane. */
export interface ServedCall
  extends Pick<
    ServerStream,
    'method' | 'metadata' | 'signal' | 'chargeTo' | 'onClosed' | 'sendInterim' | 'sendMetadata' | 'addTrailers'
  > {
  /** ends at the caller's half-close; throws a KasError if the call ends before */
  readonly messages: AsyncIterableIterator<Uint8Array> & Pick<Inbox, 'take' | 'isRead'>
  send(message: Uint8Array): Promise<void> | undefined
}

/**
 * Serves one call. Resolves with trailers: status OK. Throws: a KasError gives its status, any other error INTERNAL.
 */
// biome-ignore lint/suspicious/noConfusingVoidType: a handler without trailers returns nothing
export type CallHandler = (call: ServedCall) => Promise<Metadata | void>

/** Streams that each carry one call after another, as their server uses them. */
export class ServerLanes {
  readonly #lanes = new Set<ServerLane>()
  #isClosing = false

  /** Serves one lane; resolves at its end. */
  async serve(stream: ServerStream, handler: CallHandler): Promise<void> {
    const lane = new ServerLane(stream, handler)
    this.#lanes.add(lane)
    if (this.#isClosing) lane.close()
    try {
      await lane.run()
    } finally {
      this.#lanes.delete(lane)
      lane.sayBegun()
    }
  }

  /** Ends each lane after its running call, or at once if it is idle. */
  close(): void {
    this.#isClosing = true
    for (const lane of this.#lanes) lane.close()
  }
}

class ServerLane {
  readonly #stream: ServerStream
  readonly #handler: CallHandler
  readonly #end = Promise.withResolvers<void>()
  /** the last call, which may still run */
  #call: ServerLaneCall | undefined
  /** number of calls so far */
  #begun = 0
  /** True while a handler runs. */
  #isServing = false
  #isClosing = false
  #hasEnded = false

  constructor(stream: ServerStream, handler: CallHandler) {
    this.#stream = stream
    this.#handler = handler
  }

  run(): Promise<void> {
    const { limits } = this.#stream.session
    this.#stream.limit(limits.maxMessageBytes + messageHead.length)
    if (!this.#isClosing) {
      this.#stream.sendMetadata(noMetadata) // at once, so that the client knows that its lane is served
      this.#stream.signal.addEventListener('abort', this.sayBegun, { once: true }) // a fault ends the lane at once
      this.#serveAll().then(this.#end.resolve, this.#end.reject)
    }
    return this.#end.promise
  }

  close(): void {
    this.#isClosing = true
    if (this.#isServing) return
    this.#hasEnded = true
    this.#end.resolve()
  }

  async #serveAll(): Promise<void> {
    while (!this.#isClosing) {
      this.#call = await this.#stream.messages.next().then(this.#begin)
      if (!this.#call) return
      this.#isServing = true
      await this.#call.run(this.#handler)
      this.#isServing = false
      if (!this.#isClosing && !this.#call.messages.isRead) await this.#call.messages.skip()
    }
  }

  /**
   * Begins a call. It is a function of its own, because the wait for the call's end would keep the head and its buffer.
   */
  #begin = (first: IteratorResult<Uint8Array>): ServerLaneCall | undefined => {
    if (this.#hasEnded || first.done) return undefined
    this.#call?.release() // the client has read all of it
    const { method, raw } = decodeCall(first.value, this.#stream.session.limits.maxHeaderBytes)
    this.#begun++
    return new ServerLaneCall(this.#stream, method, readMetadata(raw))
  }

  /** Adds the number of calls to the lane's trailers. */
  sayBegun = (): void => {
    this.#stream.addTrailers({ [begunKey]: [String(this.#begun)] })
  }
}

/** One call on a lane. */
class ServerLaneCall implements ServedCall {
  readonly method: string
  readonly metadata: Metadata
  readonly messages: LaneMessages
  readonly #stream: ServerStream
  #hasHead = false
  #isFinished = false
  #isReleased = false
  #trailers: Metadata | undefined
  #onClosed: (() => void) | undefined

  constructor(stream: ServerStream, method: string, metadata: Metadata) {
    this.#stream = stream
    this.method = method
    this.metadata = metadata
    this.messages = new LaneMessages(stream.messages)
  }

  get signal(): AbortSignal {
    return this.#stream.signal
  }

  chargeTo(unread: UnreadBytes | undefined, callerKey?: string): void {
    this.#stream.chargeTo(unread, callerKey)
  }

  onClosed(listener: () => void): void {
    this.#onClosed = listener
  }

  sendInterim(metadata: Metadata): void {
    if (!this.#hasHead) this.#sendHeaders('interim', metadata)
  }

  sendMetadata(metadata: Metadata): void {
    if (this.#hasHead) throw new Error('sendMetadata after the first message')
    this.#hasHead = true
    this.#sendHeaders('head', metadata)
  }

  addTrailers(metadata: Metadata): void {
    this.#trailers = this.#trailers ? { ...this.#trailers, ...metadata } : metadata
  }

  send(message: Uint8Array): Promise<void> | undefined {
    if (this.#isFinished) return undefined
    checkMessage(message, this.#stream.session.limits.maxMessageBytes)
    if (!this.#hasHead) this.sendMetadata(noMetadata)
    return this.#stream.send(message, messageHead)
  }

  async run(handler: CallHandler): Promise<void> {
    try {
      const trailers = await handler(this)
      this.#finish(undefined, trailers ?? undefined)
    } catch (error) {
      const failure = KasError.from(error)
      if (failure.code === 'INTERNAL') this.#stream.session.onHandlerError(this.method, error)
      this.#finish(failure)
    }
  }

  /** Frees the call, which has left: the lane may carry another one. */
  release = (): void => {
    if (this.#isReleased) return
    this.#isReleased = true
    this.#stream.receives(false)
    this.#stream.chargeTo(undefined)
    this.#onClosed?.()
  }

  #finish(error: KasError | undefined, trailers?: Metadata): void {
    const headers: OutgoingHttpHeaders = {}
    writeStatus(headers, error)
    if (this.#trailers) writeMetadata(headers, this.#trailers)
    if (trailers) writeMetadata(headers, trailers)
    void this.#stream.send(encodeHeaders('trailers', headers))
    this.#isFinished = true
    this.#hasHead = true
    this.#stream.messages.chargeTo(undefined) // later bytes may be the next call's
    this.#stream.onSent(this.release)
  }

  #sendHeaders(kind: HeaderKind, metadata: Metadata): void {
    const headers: OutgoingHttpHeaders = {}
    writeMetadata(headers, metadata)
    void this.#stream.send(encodeHeaders(kind, headers))
  }
}

const end: IteratorResult<Uint8Array> = { value: undefined, done: true }

/** Messages of one call, read from its lane. */
class LaneMessages implements AsyncIterableIterator<Uint8Array> {
  readonly #inbox: Inbox
  #hasEnded = false
  /** True once no reader takes them. */
  #isLeft = false
  /** error of the client's invalid frame */
  #fault: KasError | undefined
  /** the running read of the lane */
  #reading: Promise<IteratorResult<Uint8Array>> | undefined

  constructor(inbox: Inbox) {
    this.#inbox = inbox
  }

  take(): Uint8Array | undefined {
    return this.#isLeft ? undefined : this.#take()
  }

  get isRead(): boolean {
    return this.#hasEnded
  }

  next(): Promise<IteratorResult<Uint8Array>> {
    return this.#isLeft ? Promise.resolve(end) : this.#next()
  }

  /** Stops reading. The call may go on. */
  return(): Promise<IteratorResult<Uint8Array>> {
    this.#isLeft = true
    return Promise.resolve(end)
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  /**
   * Drops the messages that still come, because the call has ended.
   *
   * @throws KasError INVALID_MESSAGE: the lane ends with it
   */
  async skip(): Promise<void> {
    this.#isLeft = true
    if (this.#reading) await this.#reading
    while (!this.#hasEnded) {
      if (this.#fault) throw this.#fault
      await this.#next()
    }
  }

  #take(): Uint8Array | undefined {
    const frame = this.#hasEnded ? undefined : this.#inbox.take()
    return frame && this.#accept(frame)
  }

  #next(): Promise<IteratorResult<Uint8Array>> {
    const message = this.#take()
    if (message) return Promise.resolve({ value: message, done: false })
    if (this.#hasEnded) return Promise.resolve(end)
    this.#reading = this.#inbox.next().then(this.#onResult)
    return this.#reading
  }

  #onResult = (result: IteratorResult<Uint8Array>): IteratorResult<Uint8Array> => {
    this.#reading = undefined
    if (result.done) throw this.#faulty(malformed('the end of the lane inside a call'))
    const message = this.#accept(result.value)
    return message ? { value: message, done: false } : end
  }

  #accept(frame: Uint8Array): Uint8Array | undefined {
    if (frame[0] === frameKind.message) return frame.subarray(messageHead.length)
    if (frame[0] !== frameKind.end || frame.length !== endFrame.length) throw this.#faulty(forbidden(frame))
    this.#hasEnded = true
    return undefined
  }

  #faulty(error: KasError): KasError {
    this.#fault = error
    return error
  }
}
