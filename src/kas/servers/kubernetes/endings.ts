import type { Clock } from '../../../lib/clock.ts'
import { dropped, type ErrorCode, KasError, limitField } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import type { CallEnd } from '../../access-log/call-record.ts'
import type { Exchange } from './http/exchange.ts'
import type { KubernetesMetrics, RequestOutcome } from './http/metrics.ts'
import type { Progress } from './progress.ts'
import { deliveryOf, errorAnswer } from './response/error-answer.ts'

export interface EndingsComponents {
  readonly metrics: Pick<KubernetesMetrics, 'failed'>
  readonly clock: Clock
  readonly log: Logger
  /** of an answer of kas' own */
  readonly headers: (progress: Progress) => string[]
}

/** Why it ends is for its caller, too: others wait for his share of the agent. */
const forOthers: ReadonlySet<ErrorCode> = new Set(['WATCH_RECALLED', 'CALLER_OVER_SHARE', ...dropped])
/** For a stream that is ended to come to where it can say why; and as long again for its client to take that. ms */
const lastMessageMs = 1000

/** How requests end otherwise than with the cluster's answer: so that whoever can read why does. */
export class Endings {
  readonly #components: EndingsComponents

  constructor(components: EndingsComponents) {
    this.#components = components
  }

  /** What ends a request that runs: as soon as its client can read why, or a little later without. */
  early(exchange: Exchange, progress: Progress): { readonly end: (reason: KasError) => void; cancel(): void } {
    const { clock } = this.#components
    let cancel = () => {}
    const end = (reason: KasError) => {
      if (progress.withdrawal) return // it ends by itself
      if (progress.failure) return exchange.statusCode === 101 ? exchange.cut() : undefined // its client may have paused
      progress.withdraw(reason)
      if (progress.mayEnd && !(progress.lastMessage && exchange.isHalfWritten)) return exchange.leave(reason)
      cancel = clock.after(lastMessageMs, () => exchange.leave(reason))
    }
    return { end, cancel: () => cancel() }
  }

  /** Refuses a page that may not call, before anything else of its request is read. It is no failure of a call. */
  async refuseOrigin(exchange: Exchange, progress: Progress): Promise<RequestOutcome> {
    exchange.upgrade?.refused()
    const { code, headers, body } = errorAnswer(new KasError({ code: 'ORIGIN_NOT_ALLOWED' }), progress)
    exchange.answer(code, [...this.#components.headers(progress), ...headers], body)
    return 'foreign_origin'
  }

  /** Answers, or cuts what was begun. */
  async fail(exchange: Exchange, progress: Progress, cause: unknown): Promise<RequestOutcome> {
    const error = KasError.from(cause)
    progress.fail(error)
    exchange.upgrade?.refused()
    if (progress.withdrawal) return await this.#withdraw(exchange, progress, progress.withdrawal)
    if (exchange.signal.aborted) return 'left'
    if (exchange.begun && forOthers.has(error.code)) return await this.#endBegun(exchange, progress, error)
    if (exchange.begun) {
      this.#log(error, 'An answer was cut', progress.traceId)
      // by SPDY kubectl takes a cut for the end of its command, with exit status 0
      if (exchange.statusCode === 101) return await this.#say(exchange, progress, error)
      exchange.cut()
      return 'cut'
    }
    const answer = errorAnswer(error, progress)
    this.#log(error, 'A request failed', answer.traceId)
    this.#components.metrics.failed(error.code)
    // kubectl takes any answer to a WebSocket but 101 for a server without them, and runs the command again by SPDY
    if (progress.isWebSocket && answer.delivery === 'maybe' && error.code !== 'STATUS') {
      exchange.cut()
      return 'cut'
    }
    exchange.answer(answer.code, [...this.#components.headers(progress), ...answer.headers], answer.body)
    return 'failed'
  }

  /** Its caller may no longer: where nothing was answered the reason is the answer. */
  async #withdraw(exchange: Exchange, progress: Progress, error: KasError): Promise<RequestOutcome> {
    if (exchange.begun || progress.isWebSocket) return await this.#endBegun(exchange, progress, error)
    const { accept, delivery, traceId, isDiscovery } = progress
    this.#components.metrics.failed(error.code)
    const answer = errorAnswer(error, { failedAt: 'entry', accept, delivery, traceId, isDiscovery })
    exchange.answer(answer.code, [...this.#components.headers(progress), ...answer.headers], answer.body)
    return 'failed'
  }

  /** The reason is the last that a stream says, where it has a place for it; all else is cut. */
  async #endBegun(exchange: Exchange, progress: Progress, error: KasError): Promise<RequestOutcome> {
    this.#components.metrics.failed(error.code)
    return await this.#say(exchange, progress, error)
  }

  async #say(exchange: Exchange, progress: Progress, error: KasError): Promise<RequestOutcome> {
    const { traceId, lastMessage, delivery } = progress
    if (!exchange.begun || !lastMessage || exchange.isHalfWritten) {
      exchange.cut()
      return 'cut'
    }
    const { status } = errorAnswer(error, { failedAt: 'entry', accept: [], delivery, traceId, isDiscovery: false })
    // a client of what runs in a pod may have paused: it gets what is left of that, and why that is not all
    const isPatient = exchange.statusCode === 101 && !progress.withdrawal
    const isOpenedAgain = error.code === 'WATCH_RECALLED' // as after the end that an API server makes
    await exchange.endWith(
      isOpenedAgain ? new Uint8Array(0) : await lastMessage.of(error, status),
      lastMessageMs,
      isPatient,
    )
    return 'failed'
  }

  /** A caller's mistake, or an agent that is away, does not concern the operator. */
  #log(error: KasError, message: string, traceId: string | undefined): void {
    const { log } = this.#components
    if (error.code === 'INTERNAL') log.error({ error, trace_id: traceId }, message)
    else log.debug({ error_code: error.code, ...limitField(error), trace_id: traceId }, message)
  }
}

/** What the access log says of how a request ended. */
export function endOf(exchange: Exchange, outcome: RequestOutcome, progress: Progress): CallEnd {
  const { failure = progress.withdrawal, delivery } = progress
  const { statusCode: status, bytes } = exchange
  const end = { status, outcome, ...bytes }
  if (!failure && outcome !== 'left') return end
  return {
    ...end,
    reason: failure?.code,
    delivery: failure ? deliveryOf(failure, delivery) : delivery,
  }
}
