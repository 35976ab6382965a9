import { dropped, type ErrorCode, KasError, limitField } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import type { KubernetesMetrics, RequestOutcome } from './http/metrics.ts'
import type { RequestLife } from './request-life.ts'
import { errorAnswer } from './response/error-answer.ts'

export interface EndingsComponents {
  readonly metrics: Pick<KubernetesMetrics, 'failed'>
  readonly log: Logger
  /** headers of kas' own answers */
  readonly headers: (life: RequestLife) => string[]
}

/** Errors by which a request ends in favour of others: its caller gets the reason. */
const forOthers: ReadonlySet<ErrorCode> = new Set(['WATCH_RECALLED', 'CALLER_OVER_SHARE', ...dropped])
/** Time for a stream's client to take its last message. ms */
const lastMessageMs = 1000

/** Ends requests without a complete answer of the cluster, and sends the reason wherever a client can read it. */
export class Endings {
  readonly #components: EndingsComponents

  constructor(components: EndingsComponents) {
    this.#components = components
  }

  /** Refuses a request of a foreign page before reading more of it. This does not count as a failed call. */
  async refuseOrigin(life: RequestLife): Promise<RequestOutcome> {
    const { exchange, progress } = life
    exchange.upgrade?.refused()
    const { code, headers, body } = errorAnswer(new KasError({ code: 'ORIGIN_NOT_ALLOWED' }), progress)
    exchange.answer(code, [...this.#components.headers(life), ...headers], body)
    return 'foreign_origin'
  }

  /** Answers with the error, or cuts an answer that has begun. */
  async fail(life: RequestLife, cause: unknown): Promise<RequestOutcome> {
    const { exchange, progress } = life
    const error = KasError.from(cause)
    life.fail(error)
    exchange.upgrade?.refused()
    if (progress.withdrawal) return await this.#withdraw(life, progress.withdrawal)
    if (exchange.signal.aborted) return 'left'
    if (exchange.begun && forOthers.has(error.code)) return await this.#endBegun(life, error)
    if (exchange.begun) {
      this.#log(error, 'An answer was cut', progress.traceId)
      // over SPDY kubectl takes a cut for the end of its command, with exit status 0
      if (exchange.statusCode === 101) return await this.#say(life, error)
      exchange.cut()
      return 'cut'
    }
    const answer = errorAnswer(error, progress)
    this.#log(error, 'A request failed', answer.traceId)
    this.#components.metrics.failed(error.code)
    // after any other answer than 101 kubectl takes the server for one without WebSockets, and runs the command again
    // over SPDY
    if (progress.isWebSocket && answer.delivery === 'maybe' && error.code !== 'STATUS') {
      exchange.cut()
      return 'cut'
    }
    exchange.answer(answer.code, [...this.#components.headers(life), ...answer.headers], answer.body)
    return 'failed'
  }

  /** Ends a request whose caller lost access: the reason is the answer, unless one has begun. */
  async #withdraw(life: RequestLife, error: KasError): Promise<RequestOutcome> {
    const { exchange, progress } = life
    if (exchange.begun || progress.isWebSocket) return await this.#endBegun(life, error)
    const { accept, delivery, traceId, isDiscovery } = progress
    this.#components.metrics.failed(error.code)
    const answer = errorAnswer(error, { failedAt: 'entry', accept, delivery, traceId, isDiscovery })
    exchange.answer(answer.code, [...this.#components.headers(life), ...answer.headers], answer.body)
    return 'failed'
  }

  /** Ends a begun answer: the reason is the last message if the stream has a place for it; else the answer is cut. */
  async #endBegun(life: RequestLife, error: KasError): Promise<RequestOutcome> {
    this.#components.metrics.failed(error.code)
    return await this.#say(life, error)
  }

  async #say({ exchange, progress }: RequestLife, error: KasError): Promise<RequestOutcome> {
    const { traceId, lastMessage, delivery } = progress
    if (!exchange.begun || !lastMessage || exchange.isHalfWritten) {
      exchange.cut()
      return 'cut'
    }
    const { status } = errorAnswer(error, { failedAt: 'entry', accept: [], delivery, traceId, isDiscovery: false })
    // a client of a pod's command may have paused: it gets the remaining output and the reason
    const isPatient = exchange.statusCode === 101 && !progress.withdrawal
    const isOpenedAgain = error.code === 'WATCH_RECALLED' // as after the end that an API server makes
    await exchange.endWith(
      isOpenedAgain ? new Uint8Array(0) : await lastMessage.of(error, status),
      lastMessageMs,
      isPatient,
    )
    return 'failed'
  }

  /** Logs an error: mistakes of callers and absent agents do not concern the operator. */
  #log(error: KasError, message: string, traceId: string | undefined): void {
    const { log } = this.#components
    if (error.code === 'INTERNAL') log.error({ error, trace_id: traceId }, message)
    else log.debug({ error_code: error.code, ...limitField(error), trace_id: traceId }, message)
  }
}
