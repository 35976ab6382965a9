import { parseTarget } from '../../../kubernetes/request/target.ts'
import { systemClock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Tracer } from '../../../lib/tracing/tracer.ts'
import { CallRecord, type ObserveCall } from '../../access-log/call-record.ts'
import { Endings } from './endings.ts'
import { createEndpoints, type EndpointsComponents, type EndpointsOptions } from './endpoints/create-endpoints.ts'
import type { Endpoints } from './endpoints/endpoints.ts'
import type { Exchange } from './http/exchange.ts'
import type { RequestOutcome } from './http/metrics.ts'
import { RequestSpan } from './http/request-span.ts'
import { observeBy } from './observers.ts'
import { namesCaller, readAuthorization } from './request/bearer-protocol.ts'
import { isPreflight, readRequestHead } from './request/request-head.ts'
import { RequestLife, type RequestLifeComponents } from './request-life.ts'
import { originHeaders, preflightHeaders } from './response/cors.ts'

export interface KubernetesProxyComponents extends Omit<EndpointsComponents, 'observe' | 'headers'> {
  /** absent: requests are not observed */
  readonly observers?: readonly ObserveCall[]
  readonly tracer: Tracer
}

export interface KubernetesProxyOptions extends EndpointsOptions {
  /** ends with `/` */
  readonly urlPathPrefix: string
  readonly allowsOrigin: (origin: string) => boolean
}

/** Hands each request to the endpoint of its path (doc/reference/tunnel-protocol.md 6). */
export class KubernetesProxy {
  readonly #components: KubernetesProxyComponents
  readonly #options: KubernetesProxyOptions
  readonly #observe: ObserveCall
  readonly #endings: Endings
  readonly #endpoints: Endpoints
  readonly #lives: RequestLifeComponents

  constructor(components: KubernetesProxyComponents, options: KubernetesProxyOptions) {
    this.#components = components
    this.#options = options
    this.#observe = observeBy(components.observers ?? [], { clock: systemClock, ...components })
    const headers = (life: RequestLife) => this.#ownHeaders(life)
    this.#endings = new Endings({ ...components, headers })
    this.#lives = { clock: systemClock, ...components }
    this.#endpoints = createEndpoints({ ...components, observe: this.#observe, headers }, options)
  }

  /** Serves a request, and answers it in any case; never rejects. */
  serve(exchange: Exchange): Promise<void> {
    return this.#run(exchange, (life) => this.#serve(life))
  }

  /** Refuses a request because of its head; never rejects. */
  refuse(exchange: Exchange, error: KasError): Promise<void> {
    return this.#run(exchange, () => Promise.reject(error))
  }

  async #run(exchange: Exchange, action: (life: RequestLife) => Promise<RequestOutcome>): Promise<void> {
    const { tracer, accessLog } = this.#components
    const span = RequestSpan.begin(tracer, exchange, this.#options.urlPathPrefix)
    const record = new CallRecord({ log: accessLog, observe: this.#observe }, exchange, span.traceId)
    const life = new RequestLife({ exchange, span, record }, this.#lives)
    let outcome: RequestOutcome = 'cut'
    try {
      const acted = tracer.within(span.span, () => action(life))
      outcome = await acted.catch((error: unknown) => this.#endings.fail(life, error))
    } catch (error) {
      this.#components.log.error({ error, trace_id: span.traceId }, 'An answer could not be given')
      exchange.cut()
    }
    life.ended(outcome)
  }

  /** Checks a request in the order of doc/reference/tunnel-protocol.md 6.1, and serves it. */
  async #serve(life: RequestLife): Promise<RequestOutcome> {
    const { exchange } = life
    const { request } = exchange
    const head = readRequestHead(request, exchange.upgrade !== undefined)
    const origin = head.origins.length > 0 ? head.origins.join(', ') : undefined
    const method = request.method as string
    const isForeign = origin !== undefined && !this.#options.allowsOrigin(origin)
    life.read(head, isForeign ? undefined : origin)
    const asksForPage = isPreflight(method, head)
    if (isForeign && (asksForPage || !namesCaller(head))) return await this.#endings.refuseOrigin(life)
    const body = head.contentLength !== 0
    if (body && exchange.upgrade) throw new KasError({ code: 'BAD_REQUEST', detail: 'an upgrade cannot have a body' })
    if (asksForPage) {
      exchange.answer(200, [...this.#ownHeaders(life), ...preflightHeaders(head.corsHeaders)], '')
      return 'preflight'
    }
    if (method === 'CONNECT' || method === 'TRACE') throw new KasError({ code: 'METHOD_NOT_ALLOWED', method })
    const target = life.asks(parseTarget(request.url as string, this.#options.urlPathPrefix, head))
    head.authorization = readAuthorization(head)
    const endpoint = this.#endpoints.find(method, target, head)
    return await endpoint.admit({ life, head, target }, endpoint)
  }

  #ownHeaders({ progress: { origin, warning } }: RequestLife): string[] {
    const own = ['Server', this.#options.product, ...(warning === undefined ? [] : ['Warning', warning])]
    return origin === undefined ? own : [...own, ...originHeaders(origin)]
  }
}
