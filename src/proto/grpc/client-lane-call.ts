import { type Metadata, noMetadata, type Outcome } from '../../call/call.ts'
import { type Delivery, KasError } from '../../lib/errors.ts'
import { parsedTrailers } from './body-trailers.ts'
import type { ClientStream, OpenOptions } from './client-session.ts'
import { readMetadata, readStatus } from './headers.ts'
import { checkMessage, decodeHeaders, endFrame, forbidden, frameKind, messageHead } from './lane-frames.ts'
import type { SessionLimits } from './limits.ts'

/** One call on a lane, as its client uses it. */
export interface ClientCall extends Pick<ClientStream, 'metadata' | 'done' | 'messages' | 'end' | 'cancel'> {
  /** @returns undefined: the caller may go on; else a promise of room */
  send(message: Uint8Array): Promise<void> | undefined
  /** Calls `listener` once nothing of the call is kept here, which may be after `done`. */
  onClosed(listener: () => void): void
}

/** Options of a call on a lane. */
export type LaneCallOptions = Pick<OpenOptions, 'method' | 'metadata' | 'unread' | 'callerKey' | 'onInterim'>

/** Bytes that an ended call may leave unsent on its lane. With more the lane ends, because no receiver needs them. */
const maxLeftBytes = 16 * 1024

const end: IteratorResult<Uint8Array> = { value: undefined, done: true }

interface LaneCallComponents {
  readonly limits: SessionLimits
  /** true: the other side may have begun the call before the lane ended with this */
  readonly hasBegun: (ended: Outcome) => boolean
  /** called once the call has ended in order and no longer uses the stream */
  readonly onFree: () => void
}

/** One call on a lane. A call that does not end in order ends its lane. */
export class LaneCall implements ClientCall {
  readonly metadata: Promise<Metadata | undefined>
  readonly done: Promise<Outcome>
  readonly #stream: ClientStream
  readonly #components: LaneCallComponents
  readonly #onInterim: OpenOptions['onInterim']
  readonly #metadata = Promise.withResolvers<Metadata | undefined>()
  readonly #done = Promise.withResolvers<Outcome>()
  /** part of the reply that has come */
  #stage: 'nothing' | 'interim' | 'head' = 'nothing'
  #hasSentEnd = false
  #outcome: Outcome | undefined
  #isClosed = false
  #onClosed: (() => void) | undefined

  constructor(stream: ClientStream, components: LaneCallComponents, { onInterim }: LaneCallOptions) {
    this.#stream = stream
    this.#components = components
    this.#onInterim = onInterim
    this.metadata = this.#metadata.promise
    this.done = this.#done.promise
  }

  /** Ends with the reply, also with a failed one. `done` settles only once this is read to the end, or returned. */
  get messages(): AsyncIterable<Uint8Array> {
    const next = () =>
      this.#stage === 'head' || this.#outcome ? Promise.resolve(this.#next()) : this.metadata.then(this.#next)
    return { [Symbol.asyncIterator]: () => ({ next, return: () => this.#leave() }) }
  }

  /** @throws KasError MESSAGE_TOO_LARGE */
  send(message: Uint8Array): Promise<void> | undefined {
    if (this.#outcome || this.#hasSentEnd) return undefined
    checkMessage(message, this.#components.limits.maxMessageBytes)
    return this.#stream.send(message, messageHead)
  }

  end(): void {
    if (this.#outcome || this.#hasSentEnd) return
    this.#hasSentEnd = true
    void this.#stream.send(endFrame)
  }

  /** Cancels the call, and ends its lane. */
  cancel(reason: KasError = new KasError({ code: 'CANCELLED' })): void {
    this.#break({ error: reason, trailers: noMetadata })
  }

  onClosed(listener: () => void): void {
    if (this.#isClosed) listener()
    else this.#onClosed = listener
  }

  /** Accepts frames until the head or the end has come. Later frames are read on demand. */
  received = (result: IteratorResult<Uint8Array>): void => {
    if (result.done) this.lost()
    else {
      let frame: Uint8Array | undefined = result.value
      while (frame && this.#isExpected) {
        this.#accept(frame)
        if (this.#isExpected) frame = this.#stream.inbox.take()
      }
      if (this.#isExpected) this.#stream.inbox.next().then(this.received, this.lost)
    }
  }

  /** True while the reply's head, or its end, has not come. */
  get #isExpected(): boolean {
    return this.#stage !== 'head' && !this.#outcome
  }

  /** Ends the call, because its lane has ended. */
  lost = (): void => {
    void this.#stream.done.then((ended) => this.#break(this.#outcomeOfLost(ended)))
  }

  /** Returns the next message, or the end. */
  #next = (): IteratorResult<Uint8Array> | Promise<IteratorResult<Uint8Array>> => {
    while (!this.#outcome) {
      const frame = this.#stream.inbox.take()
      if (!frame) return this.#stream.inbox.next().then(this.#onResult, this.#onFailure)
      const message = this.#accept(frame)
      if (message) return { value: message, done: false }
    }
    return end
  }

  #onResult = (
    result: IteratorResult<Uint8Array>,
  ): IteratorResult<Uint8Array> | Promise<IteratorResult<Uint8Array>> => {
    if (result.done) return this.#onFailure()
    const message = this.#outcome ? undefined : this.#accept(result.value)
    return message ? { value: message, done: false } : this.#next()
  }

  #onFailure = (): Promise<IteratorResult<Uint8Array>> => {
    this.lost()
    return this.done.then(() => end)
  }

  #leave(): Promise<IteratorResult<Uint8Array>> {
    this.cancel(new KasError({ code: 'CANCELLED', detail: 'the reader left' }))
    return Promise.resolve(end)
  }

  /** @returns the message for the reader; undefined: the frame is no message */
  #accept(frame: Uint8Array): Uint8Array | undefined {
    const isBody = this.#stage === 'head'
    if (frame[0] === frameKind.message && isBody) return frame.subarray(messageHead.length)
    try {
      const raw = decodeHeaders(frame, this.#components.limits.maxHeaderBytes)
      if (frame[0] === frameKind.trailers) this.#finish(raw)
      else if (frame[0] === frameKind.interim && !isBody) {
        this.#stage = 'interim'
        this.#onInterim?.(readMetadata(raw))
      } else if (frame[0] === frameKind.head && !isBody) {
        this.#stage = 'head'
        this.#metadata.resolve(readMetadata(raw))
      } else throw forbidden(frame)
    } catch (error) {
      this.cancel(KasError.from(error))
    }
    return undefined
  }

  /** Ends the call, because the reply is complete: the receiver does not need the bytes that are still unsent. */
  #finish(raw: readonly string[]): void {
    const isClean = this.#stream.unsentBytes <= maxLeftBytes
    if (isClean) this.end()
    this.#settle({ error: readStatus(parsedTrailers(raw)), trailers: readMetadata(raw) })
    if (isClean) {
      this.#components.onFree()
      this.#close()
    } else this.#endLane()
  }

  #break(outcome: Outcome): void {
    if (this.#outcome) return
    this.#settle(outcome)
    this.#endLane()
  }

  #endLane(): void {
    this.#stream.cancel()
    this.#stream.onClosed(() => this.#close())
  }

  #close(): void {
    this.#isClosed = true
    this.#onClosed?.()
  }

  /** Outcome of a call whose lane has ended. The lane's status is that of the call that began last. */
  #outcomeOfLost(ended: Outcome): Outcome {
    const { error } = ended
    if (error && error.code !== 'STATUS') return { error, trailers: noMetadata }
    if (this.#stage === 'nothing' && !this.#stream.wasReset && !this.#components.hasBegun(ended))
      return { error: lost('none', error), trailers: ended.trailers }
    if (!error || this.#stream.wasReset) return { error: lost('maybe', error), trailers: noMetadata }
    return { error, trailers: noMetadata }
  }

  #settle(outcome: Outcome): void {
    this.#outcome = outcome
    this.#metadata.resolve(undefined)
    this.#done.resolve(outcome)
  }
}

function lost(delivery: Delivery, cause: KasError | undefined): KasError {
  return new KasError({ code: 'TUNNEL_LOST', delivery }, { cause })
}
