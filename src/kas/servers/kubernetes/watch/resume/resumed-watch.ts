import { type Call, type Forward, noMetadata, type Outcome, type Reply } from '../../../../../call/call.ts'
import type { KnownMessages } from '../../../../../call/known-messages.ts'
import { Backoff } from '../../../../../lib/backoff.ts'
import type { ByteBudget } from '../../../../../lib/byte-budget.ts'
import type { Clock } from '../../../../../lib/clock.ts'
import { type ErrorCode, KasError } from '../../../../../lib/errors.ts'
import { pause } from '../../../../../lib/pause.ts'
import type { HttpResponseHeader } from '../../../../../proto/http/http-message.ts'
import { decodeHttpResponse, encodeHttpResponse, httpMessageOrder } from '../../../../../proto/http/http-over-grpc.ts'
import { MessageOrder } from '../../../../../proto/wire/message-order.ts'
import { refusalEvent, type WatchFormat, watchFormat } from './watch-format.ts'
import { WatchFrames } from './watch-frames.ts'
import { WatchPosition } from './watch-position.ts'
import type { WatchQuestion } from './watch-question.ts'

export interface ResumedWatchComponents {
  readonly forward: Forward
  /** a monotonic clock */
  readonly clock: Clock
  readonly random: () => number
  /** budget for incomplete events of all watches of the agent */
  readonly kept: ByteBudget
  /** resolves if the caller still has access with the same identity; else throws the reason */
  readonly mayGoOn: (signal: AbortSignal) => Promise<void>
  /** Called when the watch goes on. */
  readonly onResumed: () => void
}

/** Call of a watch, whose query differs each time it is opened. */
export interface WatchCall extends Omit<Call, 'messages'> {
  messagesOf(query: WatchQuestion['query']): KnownMessages
}

/** Pauses between attempts to open the watch again; the first is made at once if it was open for `resetMs`. */
const pacing = { firstMs: 100, maxMs: 5000, factor: 2, jitter: 0.5, resetMs: 10_000 } as const
/** Time without progress, while attempts fail or are lost at once, after which the watch ends. ms */
const patienceMs = 120_000
/** Bytes of the answer that refuses an attempt: a Status has a few lines. */
const maxRefusalBytes = 64 * 1024

/** Errors that may be over at the next attempt. */
const passing: ReadonlySet<ErrorCode> = new Set([
  'TUNNEL_LOST',
  'AGENT_NOT_CONNECTED',
  'AGENT_SATURATED',
  'HOLDER_UNREACHABLE',
  'TOO_MANY_WAITING',
])

/**
 * Opens a watch that survives the loss of its tunnel: it is opened again after the last event that its client has. The
 * client only gets complete events. An end that the API server makes is passed on. A watch that cannot go on ends with
 * the error of its loss, or with the refusal.
 *
 * @throws KasError as `forward`, for the first attempt
 */
export async function openWatch(
  components: ResumedWatchComponents,
  question: WatchQuestion,
  call: WatchCall,
): Promise<Reply> {
  const watch = new ResumedWatch(components, question, call)
  const { resourceVersion, sendsInitialEvents } = question.start
  const first = await watch.open(question.query, resourceVersion !== undefined && !sendsInitialEvents)
  const done = Promise.withResolvers<Outcome>()
  return { metadata: first.metadata, messages: watch.run(first, done.resolve), done: done.promise }
}

class ResumedWatch {
  readonly #components: ResumedWatchComponents
  readonly #question: WatchQuestion
  readonly #call: WatchCall
  readonly #begunAt: number
  readonly #backoff: Backoff
  #format: WatchFormat | undefined
  #frames: WatchFrames | undefined
  #position: WatchPosition | undefined
  /** when the header came; undefined: the watch is not open */
  #openedAt: number | undefined
  /** when the last event brought progress, or a watch that was open for a while was lost */
  #goodAt: number
  /** the end was sent to the client */
  #isOver = false

  constructor(components: ResumedWatchComponents, question: WatchQuestion, call: WatchCall) {
    this.#components = components
    this.#question = question
    this.#call = call
    this.#begunAt = components.clock.now()
    this.#goodAt = this.#begunAt
    this.#backoff = new Backoff(components, pacing)
  }

  /** Opens the watch. @param reopens - the call may be lost without harm, because it is opened again */
  open(query: WatchQuestion['query'], reopens: boolean, waitsForAway = false): Promise<Reply> {
    const { messagesOf, ...call } = this.#call
    return this.#components.forward({ ...call, messages: messagesOf(query), reopens, waitsForAway })
  }

  async *run(first: Reply, settle: (outcome: Outcome) => void): AsyncGenerator<Uint8Array, void, void> {
    let outcome: Outcome = { error: new KasError({ code: 'CANCELLED' }), trailers: noMetadata } // the reader has left
    try {
      for (let reply: Reply | undefined = first; reply; reply = await this.#again(outcome.error)) {
        yield* this.#pass(reply, reply === first)
        outcome = await reply.done
        if (outcome.error && !this.#isOver) continue
        const rest = this.#frames?.take()
        if (rest && rest.length > 0) yield encodeHttpResponse.data(rest)
        yield encodeHttpResponse.trailer
        outcome = { trailers: outcome.trailers }
        return
      }
    } catch (cause) {
      outcome = { error: KasError.from(cause), trailers: noMetadata }
    } finally {
      this.#frames?.take()
      settle(outcome)
    }
  }

  /** Passes the answer on, without its end. */
  async *#pass(reply: Reply, isFirst: boolean): AsyncGenerator<Uint8Array, void, void> {
    const order = new MessageOrder(httpMessageOrder)
    let refusal: { readonly header: HttpResponseHeader; readonly body: Uint8Array[]; bytes: number } | undefined
    for await (const bytes of reply.messages) {
      const message = decodeHttpResponse(bytes)
      order.accept(message.kind)
      if (message.kind === 'header') {
        this.#openedAt = this.#components.clock.now()
        if (isFirst) {
          this.#begin(message.header)
          yield bytes
        } else if (watchFormat(message.header) === this.#format) this.#components.onResumed()
        else {
          refusal = { header: message.header, body: [], bytes: 0 }
          if (message.header.statusCode === 200) break // it may have no end
        }
      } else if (message.kind !== 'data') continue
      else if (!refusal) yield* this.#passData(message.data, bytes)
      else if (refusal.bytes + message.data.length > maxRefusalBytes) break
      else {
        refusal.body.push(message.data)
        refusal.bytes += message.data.length
      }
    }
    if (refusal && this.#format) {
      this.#isOver = true
      yield encodeHttpResponse.data(await refusalEvent(this.#format, refusal.header, Buffer.concat(refusal.body)))
    } else if (!(await reply.done).error) order.end()
  }

  #begin(header: HttpResponseHeader): void {
    this.#format = watchFormat(header)
    if (!this.#format) return
    this.#frames = new WatchFrames(this.#format.boundaries(), this.#components.kept)
    this.#position = new WatchPosition(this.#question.start, this.#format.readEvent)
  }

  /** @param bytes - the message that contains `data` */
  *#passData(data: Uint8Array, bytes: Uint8Array): Generator<Uint8Array, void, void> {
    const frames = this.#frames
    const position = this.#position
    if (!frames || !position) {
      yield bytes
      return
    }
    const before = position.resourceVersion
    const passed = frames.push(data, (event) => position.follow(event))
    if (position.resourceVersion !== before) this.#goodAt = this.#components.clock.now()
    if (frames.isPassing) position.lose()
    const [first] = passed
    if (passed.length === 1 && first?.length === data.length) yield bytes
    else for (const piece of passed) yield encodeHttpResponse.data(piece)
  }

  /**
   * Opens the watch again after a loss.
   *
   * @param lost - error with which the watch ended
   * @returns undefined: it does not go on
   * @throws KasError if the caller lost access, or the cluster refuses the watch
   */
  async #again(lost: KasError | undefined): Promise<Reply | undefined> {
    const { clock, mayGoOn } = this.#components
    const { signal } = this.#call
    const from = this.#position?.resourceVersion
    if (lost?.code !== 'TUNNEL_LOST' || from === undefined) return undefined
    this.#frames?.take() // drops a partial event, which will come again completely
    this.#frames = this.#format && new WatchFrames(this.#format.boundaries(), this.#components.kept)
    const wasOpenMs = this.#openedAt === undefined ? 0 : clock.now() - this.#openedAt
    this.#openedAt = undefined
    if (wasOpenMs >= pacing.resetMs) this.#goodAt = clock.now()
    let refusal: KasError | undefined
    for (let isFirst = wasOpenMs >= pacing.resetMs; ; isFirst = false) {
      if (clock.now() - this.#goodAt > patienceMs) {
        if (refusal) throw refusal
        return undefined
      }
      if (!isFirst) await this.#backoff.wait(signal)
      signal.throwIfAborted()
      await mayGoOn(signal)
      signal.throwIfAborted()
      try {
        return await this.open(this.#question.queryFrom(from, clock.now() - this.#begunAt), true, true)
      } catch (error) {
        const failure = KasError.from(error)
        const { spec } = failure
        refusal = spec.code === 'CALLER_OVER_SHARE' ? failure : undefined
        if (spec.code === 'CALLER_OVER_SHARE') await pause(spec.retryAfterS * 1000, clock, signal)
        else if (!passing.has(spec.code)) throw error
      }
    }
  }
}
