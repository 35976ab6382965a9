import type { OutgoingHttpHeaders } from 'node:http2'
import type { Outcome } from '../../call/call.ts'
import { KasError } from '../../lib/errors.ts'
import { type ClientCall, LaneCall, type LaneCallOptions } from './client-lane-call.ts'
import type { ClientSession, ClientStream } from './client-session.ts'
import { writeMetadata } from './headers.ts'
import { begunKey, encodeCall, forbidden, laneMethod, messageHead } from './lane-frames.ts'
import type { SessionLimits } from './limits.ts'
import { maxRequestMetadataBytes } from './sendable.ts'

/** A stream of a session that carries one call after another, as its client uses it. */
export class ClientLane {
  /** outcome of the stream; never rejects */
  readonly ended: Promise<Outcome>
  readonly #stream: ClientStream
  readonly #limits: SessionLimits
  readonly #onFree: (lane: ClientLane) => void
  /** True once the other side has accepted the lane. */
  #isServed = false
  /** number of calls so far */
  #calls = 0
  #hasEnded = false
  /** undefined: the lane is idle */
  #call: LaneCall | undefined

  /**
   * @param onFree - called when a call has ended in order: the lane can carry another one
   * @throws KasError TUNNEL_LOST (delivery none) if the session is draining
   */
  constructor(session: ClientSession, onFree: (lane: ClientLane) => void) {
    this.#stream = session.open({ method: laneMethod })
    this.#limits = session.limits
    this.#stream.limit(session.limits.maxMessageBytes + messageHead.length)
    this.#onFree = onFree
    void this.#stream.metadata.then((metadata) => {
      this.#isServed = metadata !== undefined
    })
    this.ended = this.#stream.done
    void this.ended.then(() => {
      this.#hasEnded = true
      if (this.#stream.inbox.isEmpty) this.#call?.lost() // else its frames are read, perhaps its end
    })
    this.#listen()
  }

  /**
   * Begins a call on an idle lane.
   *
   * @throws KasError INVALID_MESSAGE: HTTP/2 would refuse such a call too, and the lane is free again
   */
  open(options: LaneCallOptions): ClientCall {
    if (this.#call) throw new Error('a lane carries one call at a time')
    if (this.#hasEnded) throw new KasError({ code: 'TUNNEL_LOST', delivery: 'none' })
    const head = this.#headOf(options)
    this.#stream.chargeTo(options.unread, options.callerKey)
    this.#stream.receives(true)
    const number = ++this.#calls
    const hasBegun = ({ trailers }: Outcome) => this.#isServed && number <= Number(trailers[begunKey]?.[0] ?? number)
    const components = { limits: this.#limits, hasBegun, onFree: () => this.#free() }
    this.#call = new LaneCall(this.#stream, components, options)
    void this.#stream.send(head)
    return this.#call
  }

  /** Ends an idle lane. */
  end(): void {
    this.#stream.end()
  }

  #headOf({ method, metadata }: LaneCallOptions): Uint8Array {
    const headers: OutgoingHttpHeaders = {}
    if (metadata) writeMetadata(headers, metadata, maxRequestMetadataBytes)
    try {
      return encodeCall(method, headers)
    } catch (error) {
      this.#onFree(this)
      throw error
    }
  }

  /** Keeps one read outstanding: a frame on an idle lane is a fault, or the end. */
  #listen(): void {
    this.#stream.inbox.next().then(this.#onFirst, this.#onFailure)
  }

  #onFirst = (result: IteratorResult<Uint8Array>): void => {
    if (this.#call) this.#call.received(result)
    else if (!result.done) this.#stream.cancel(forbidden(result.value))
  }

  #onFailure = (): void => void this.#call?.lost()

  #free(): void {
    this.#call = undefined
    this.#stream.receives(false)
    this.#stream.chargeTo(undefined)
    if (this.#hasEnded) return // its last reply was read after the end
    this.#listen()
    this.#onFree(this)
  }
}
