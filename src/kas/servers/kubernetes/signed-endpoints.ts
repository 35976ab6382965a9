import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { FairTurns } from '../../../lib/fair-turns.ts'
import { networkOf } from '../../../lib/host-port.ts'
import { linkedController } from '../../../lib/signals.ts'
import type { SignedEndpoint } from '../../module.ts'
import type { Arrivals } from '../arrivals.ts'
import { boundedBody, checkLength } from './http/bounded-body.ts'
import { noAgent } from './http/connection.ts'
import type { Exchange } from './http/exchange.ts'
import type { KubernetesLimits } from './http/kubernetes-limits.ts'
import type { RequestOutcome } from './http/metrics.ts'
import type { RequestHead } from './request/request-head.ts'
import type { Target } from './request/target.ts'
import { checkMethod, contentHeaders } from './response/own-answer.ts'

export interface SignedEndpointsComponents {
  readonly endpoints: readonly SignedEndpoint[]
  readonly arrivals: Pick<Arrivals, 'admit'>
  /** a monotonic one */
  readonly clock: Clock
}

export type SignedEndpointsOptions = Pick<
  KubernetesLimits,
  | 'maxSignedRequests'
  | 'maxSignedRequestsOfNetwork'
  | 'maxWaitingSignedRequests'
  | 'maxSignedBodyBytes'
  | 'signedBodyTimeoutMs'
>

export interface SignedCall {
  readonly endpoint: SignedEndpoint
  /** what follows its path */
  readonly name: string
}

/** What kas answers by itself on 8154 to whoever signs a body, as a Git server does that tells of a push. */
export class SignedEndpoints {
  readonly #components: SignedEndpointsComponents
  readonly #options: SignedEndpointsOptions
  /** of networks: bodies that are being read */
  readonly #turns: FairTurns<string>

  constructor(components: SignedEndpointsComponents, options: SignedEndpointsOptions) {
    const { maxSignedRequests: limit } = options
    this.#components = components
    this.#options = options
    this.#turns = new FairTurns({
      maxRunning: limit,
      maxRunningOfSource: options.maxSignedRequestsOfNetwork,
      maxWaiting: options.maxWaitingSignedRequests,
      tooMany: () => new KasError({ code: 'TOO_MANY_STREAMS', limit, what: 'signed requests' }),
    })
  }

  /** Undefined: the request is about an agent. @throws KasError METHOD_NOT_ALLOWED */
  find(method: string, { path }: Pick<Target, 'path'>): SignedCall | undefined {
    const endpoint = this.#components.endpoints.find((each) => path.startsWith(each.path))
    if (!endpoint) return undefined
    checkMethod(method, endpoint.methods)
    return { endpoint, name: path.slice(endpoint.path.length) }
  }

  /** @throws KasError TOO_MANY_STREAMS, DEADLINE_EXCEEDED, MESSAGE_TOO_LARGE, BODY_TOO_SLOW, and what the endpoint throws */
  async serve(
    { endpoint, name }: SignedCall,
    exchange: Exchange,
    { contentLength }: Pick<RequestHead, 'contentLength'>,
    headers: readonly string[],
  ): Promise<RequestOutcome> {
    exchange.upgrade?.refused()
    const { maxSignedBodyBytes: maxBytes, signedBodyTimeoutMs: timeoutMs } = this.#options
    checkLength(contentLength, { maxBytes })
    const { request, signal } = exchange
    const header = (of: string) => {
      const value = request.headers[of]
      return typeof value === 'string' ? value : undefined
    }
    const check = async (checking: AbortSignal) => {
      const { clock } = this.#components
      const late = clock.now() + timeoutMs
      const end = await this.#turn(exchange.address, checking)
      try {
        return await endpoint.serve({
          name,
          header,
          body: boundedBody(exchange, contentLength, { maxBytes, timeoutMs: late - clock.now(), signal: checking }),
        })
      } finally {
        end()
      }
    }
    const { status, mediaType, body } = await this.#components.arrivals.admit(exchange.arrived, check, signal)
    exchange.connection.letIn(noAgent, endpoint.path)
    await exchange.answer(status, [...headers, ...contentHeaders(mediaType)], body)
    return 'endpoint'
  }

  async #turn(address = '', signal: AbortSignal): Promise<() => void> {
    const waiting = linkedController(signal)
    const cancel = this.#components.clock.after(this.#options.signedBodyTimeoutMs, () =>
      waiting.abort(new KasError({ code: 'DEADLINE_EXCEEDED' })),
    )
    try {
      return await this.#turns.take(networkOf(address), waiting.signal)
    } finally {
      cancel()
      waiting.dispose()
    }
  }
}
