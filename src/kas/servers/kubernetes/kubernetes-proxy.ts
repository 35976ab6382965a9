import { type Clock, systemClock } from '../../../lib/clock.ts'
import { type Delivery, KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import { type Call, type Forward, noMetadata, type Reply } from '../../../proto/call.ts'
import {
  decodeHttpResponse,
  encodeHttpRequest,
  type HttpResponseHeader,
  httpMessageOrder,
  kubernetesApiMethod,
} from '../../../proto/http-over-grpc.ts'
import { MessageOrder } from '../../../proto/message-order.ts'
import type { Directory, Impersonation } from '../../directory/directory.ts'
import { noUsage, type Usage } from '../../directory/usage.ts'
import { accessCheckMs, type CheckedAccess, checkAccess, isJson, isWatch } from './access-check.ts'
import { authorize } from './authorize.ts'
import { originHeaders, preflightHeaders } from './cors.ts'
import { countAccess } from './count-access.ts'
import { readCredentials } from './credentials.ts'
import { errorAnswer, type FailedAt } from './error-answer.ts'
import type { Exchange } from './exchange.ts'
import type { KubernetesMetrics, RequestOutcome } from './metrics.ts'
import { add, type RequestHead, readRequestHead } from './request-head.ts'
import { bodilessMessages, bodyMessages, upgradeMessages } from './request-messages.ts'
import { type ResponseHead, readResponseHead } from './response-head.ts'
import { safetyOf } from './safety.ts'
import { parseTarget, type Target } from './target.ts'

export interface KubernetesProxyComponents {
  readonly forward: Forward
  readonly directory: Pick<Directory, 'grantJob' | 'grantUser'>
  readonly metrics: KubernetesMetrics
  /** hears who was let through; absent: nobody wants to know */
  readonly usage?: Usage
  readonly clock?: Clock
  readonly log: Logger
}

export interface KubernetesProxyOptions {
  /** ends with `/` */
  readonly urlPathPrefix: string
  /** `gitlab-kas/<version>/<commit>` */
  readonly product: string
  readonly allowsOrigin: (origin: string) => boolean
  /** from one look at whether the caller of a long request still may to the next, in ms */
  readonly accessCheckMs?: number
}

/** What is known of a request so far: how a failure is told depends on it. */
interface Progress {
  accept: readonly string[]
  origin: string | undefined
  failedAt: FailedAt
  delivery: Delivery
  isWebSocket: boolean
  /** of a watch in JSON whose answer has begun: whether an event could follow now */
  begunWatch?: 'at_line_end' | 'in_line'
  /** why the caller may no longer, found while its request ran */
  withdrawn?: KasError
}

const newline = 10

/** Carries one request at a time to its agent and the answer back (wire-protocol 6). */
export class KubernetesProxy {
  readonly #components: KubernetesProxyComponents
  readonly #options: KubernetesProxyOptions
  readonly #via: string

  constructor(components: KubernetesProxyComponents, options: KubernetesProxyOptions) {
    this.#components = components
    this.#options = options
    this.#via = `gRPC/1.0 ${options.product}`
  }

  /** Answers, whatever happens; never rejects. */
  serve(exchange: Exchange): Promise<void> {
    return this.#run(exchange, (progress) => this.#serve(exchange, progress))
  }

  /** Refuses a request for what its head says; never rejects. */
  refuse(exchange: Exchange, error: KasError): Promise<void> {
    return this.#run(exchange, () => Promise.reject(error))
  }

  async #run(exchange: Exchange, action: (progress: Progress) => Promise<RequestOutcome>): Promise<void> {
    const progress: Progress = {
      accept: [],
      origin: undefined,
      failedAt: 'entry',
      delivery: 'none',
      isWebSocket: false,
    }
    let outcome: RequestOutcome = 'cut'
    try {
      outcome = await action(progress).catch((error: unknown) => this.#fail(exchange, progress, error))
    } catch (error) {
      this.#components.log.error({ error }, 'An answer could not be given')
      exchange.cut()
    }
    exchange.finish()
    this.#components.metrics.ended(outcome)
  }

  /** The order of checks of wire-protocol 6.1. */
  async #serve(exchange: Exchange, progress: Progress): Promise<RequestOutcome> {
    const { request } = exchange
    const head = readRequestHead(request, exchange.upgrade !== undefined)
    progress.accept = head.accept
    progress.isWebSocket = head.upgrade.some((protocol) => protocol.toLowerCase() === 'websocket')
    if (head.origins.length > 0) {
      const origin = head.origins.join(', ')
      if (!this.#options.allowsOrigin(origin)) {
        await exchange.answer(403, [], '')
        return 'foreign_origin'
      }
      progress.origin = origin
    }
    const method = request.method as string
    const body = head.contentLength !== 0
    if (body && exchange.upgrade) throw new KasError({ code: 'BAD_REQUEST', detail: 'an upgrade cannot have a body' })
    if (method === 'OPTIONS') {
      await exchange.answer(200, [...this.#ownHeaders(progress), ...preflightHeaders(head.corsHeaders)], '')
      return 'preflight'
    }
    if (method === 'CONNECT' || method === 'TRACE') throw new KasError({ code: 'METHOD_NOT_ALLOWED', method })
    const target = parseTarget(request.url as string, this.#options.urlPathPrefix)
    const credentials = readCredentials(head, target)
    const { directory, usage } = this.#components
    const { impersonation, access } = await authorize(directory, credentials, exchange.signal)
    exchange.signal.throwIfAborted()
    countAccess(usage ?? noUsage, access)
    const call = {
      agentId: credentials.agentId,
      method: kubernetesApiMethod,
      metadata: noMetadata,
      messages: this.#messages(exchange, head, target, impersonation),
      safety: safetyOf({ method, path: target.path, upgrade: head.upgrade.length > 0, body }),
      signal: exchange.signal,
    }
    const ask = async (signal: AbortSignal) => (await authorize(directory, credentials, signal)).impersonation
    const stopChecking = this.#checkAccess(exchange, progress, { ask, first: impersonation })
    try {
      return await this.#carry(exchange, progress, call)
    } finally {
      stopChecking()
    }
  }

  async #carry(exchange: Exchange, progress: Progress, call: Call): Promise<RequestOutcome> {
    progress.failedAt = 'tunnel'
    const reply = await this.#components.forward(call)
    reply.ready.then(() => {
      progress.delivery = 'maybe'
    }, ignore)
    return await this.#relay(exchange, progress, reply)
  }

  /** A caller that may no longer ends as if it had left; how it is told depends on what was answered by then. */
  #checkAccess(exchange: Exchange, progress: Progress, access: Omit<CheckedAccess, 'withdraw'>): () => void {
    const withdraw = (reason: KasError) => {
      progress.withdrawn = reason
      exchange.leave(reason)
    }
    const { clock = systemClock } = this.#components
    return checkAccess({ ...access, withdraw }, clock, this.#options.accessCheckMs ?? accessCheckMs)
  }

  #messages(exchange: Exchange, head: RequestHead, target: Target, impersonation: Impersonation | undefined) {
    add(head.header, 'Via', this.#via)
    const { upgrade } = exchange
    const header = encodeHttpRequest.header({
      method: exchange.request.method as string,
      urlPath: target.path,
      query: target.query,
      header: head.header,
      contentLength: head.contentLength,
      ...(impersonation ? { impersonation } : {}),
    })
    if (upgrade) return upgradeMessages(header, upgrade.bytes)
    if (head.contentLength === 0) return bodilessMessages(header)
    return bodyMessages(header, () => exchange.openBody())
  }

  /** The answer, message by message, as fast as the client takes it. */
  async #relay(exchange: Exchange, progress: Progress, reply: Reply): Promise<RequestOutcome> {
    const order = new MessageOrder(httpMessageOrder)
    let switching: ResponseHead | undefined
    for await (const bytes of reply.messages) {
      const message = decodeHttpResponse(bytes)
      order.accept(message.kind)
      let full: Promise<void> | undefined
      if (message.kind === 'data') {
        if (switching) throw invalid('data in the answer to an upgrade')
        if (progress.begunWatch) progress.begunWatch = message.data.at(-1) === newline ? 'at_line_end' : 'in_line'
        full = exchange.write(message.data)
      } else if (message.kind === 'header') {
        switching = this.#begin(exchange, progress, message.header)
      } else if (message.kind === 'trailer') {
        if (switching) exchange.switchProtocols(switching)
      } else if (switching && exchange.upgrade) {
        full = exchange.upgrade.write(message.data)
      } else {
        throw invalid('upgradeData in an answer that is no upgrade')
      }
      if (full) await full
      exchange.signal.throwIfAborted()
    }
    const { error } = await reply.done
    if (error) throw error
    order.end()
    if (switching) await exchange.upgrade?.end()
    else await exchange.end()
    return switching ? 'upgraded' : 'answered'
  }

  /** @returns the head of a 101, which is only sent after its trailer */
  #begin(exchange: Exchange, progress: Progress, header: HttpResponseHeader): ResponseHead | undefined {
    const { statusCode } = header
    const upgrade = statusCode === 101 && exchange.upgrade !== undefined
    if (!upgrade && (statusCode < 200 || statusCode > 999)) throw invalid(`status code ${statusCode} of the answer`)
    const head = readResponseHead(header, { via: this.#via, origin: progress.origin, upgrade })
    if (upgrade) return head
    if (isWatch(exchange.request) && isJson(header)) progress.begunWatch = 'at_line_end'
    exchange.upgrade?.refused()
    try {
      exchange.begin(statusCode, head)
    } catch (cause) {
      throw new KasError({ code: 'INVALID_MESSAGE', detail: 'the head of the answer is not valid HTTP' }, { cause })
    }
    return undefined
  }

  async #fail(exchange: Exchange, progress: Progress, cause: unknown): Promise<RequestOutcome> {
    const error = KasError.from(cause)
    exchange.upgrade?.refused()
    if (progress.withdrawn) return await this.#withdraw(exchange, progress, progress.withdrawn)
    if (exchange.signal.aborted) return 'left'
    if (exchange.begun) {
      this.#log(error, 'An answer was cut')
      exchange.cut()
      return 'cut'
    }
    const answer = errorAnswer(error, progress.failedAt, progress.accept, progress.delivery)
    this.#log(error, 'A request failed', answer.traceId)
    this.#components.metrics.failed(error.code)
    // kubectl takes any answer to a WebSocket but 101 for a server without them, and runs the command again by SPDY
    if (progress.isWebSocket && answer.delivery === 'maybe' && error.code !== 'STATUS') {
      exchange.cut()
      return 'cut'
    }
    await exchange.answer(answer.code, [...this.#ownHeaders(progress), ...answer.headers], answer.body)
    return 'failed'
  }

  /** The reason is the answer, or the last event of a watch; all else that was begun can only be cut. */
  async #withdraw(exchange: Exchange, progress: Progress, error: KasError): Promise<RequestOutcome> {
    const { log, metrics } = this.#components
    log.info({ error }, 'A request was ended: its caller may no longer')
    metrics.failed(error.code)
    const answer = errorAnswer(error, 'entry', progress.begunWatch ? [] : progress.accept, progress.delivery)
    if (!exchange.begun && !progress.isWebSocket) {
      await exchange.answer(answer.code, [...this.#ownHeaders(progress), ...answer.headers], answer.body)
      return 'failed'
    }
    if (progress.begunWatch !== 'at_line_end') {
      exchange.cut()
      return 'cut'
    }
    void exchange.write(Buffer.from(`{"type":"ERROR","object":${String(answer.body).trimEnd()}}\n`))
    await exchange.end()
    return 'failed'
  }

  #ownHeaders({ origin }: Progress): string[] {
    const own = ['Server', this.#options.product]
    return origin === undefined ? own : [...own, ...originHeaders(origin)]
  }

  /** What a caller did wrong, and an agent that is away, is no concern of the operator. */
  #log(error: KasError, message: string, traceId?: string): void {
    const { log } = this.#components
    if (error.code === 'INTERNAL') log.error({ error, trace_id: traceId }, message)
    else log.debug({ error_code: error.code }, message)
  }
}

function invalid(detail: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail })
}

function ignore(): void {}
