import type { Clock } from '../../../../lib/clock.ts'
import { KasError } from '../../../../lib/errors.ts'
import { networkOf } from '../../../../lib/host-port.ts'
import { linkedController } from '../../../../lib/signals.ts'
import { type Reclaimable, Turns } from '../../../../lib/turns.ts'
import type { OwnAnswer, SignedEndpoint } from '../../../own-endpoint.ts'
import { BodyPace } from '../http/body-pace.ts'
import { boundedBody, checkLength } from '../http/bounded-body.ts'
import type { Exchange } from '../http/exchange.ts'
import type { KubernetesLimits } from '../http/kubernetes-limits.ts'
import type { RequestLife } from '../request-life.ts'
import { contentHeaders } from '../response/own-answer.ts'
import type { Admission } from './admission.ts'
import type { AskedRequest, Endpoint } from './endpoint.ts'

export interface SignedEndpointsComponents {
  readonly admission: Pick<Admission, 'sender'>
  /** headers of kas' own answers */
  readonly headers: (life: RequestLife) => string[]
  /** a monotonic clock */
  readonly clock: Clock
}

export type SignedEndpointsOptions = Pick<
  KubernetesLimits,
  | 'maxSignedRequests'
  | 'maxSignedRequestsOfNetwork'
  | 'maxWaitingSignedRequests'
  | 'signedTurnPatienceMs'
  | 'crowdedSignedBodyMs'
  | 'minSignedBodyRate'
  | 'maxSignedBodyBytes'
  | 'signedBodyTimeoutMs'
>

/** Serves senders that sign a body, like a Git server that announces a push. */
export class SignedEndpoints {
  readonly #components: SignedEndpointsComponents
  readonly #options: SignedEndpointsOptions
  /** turns of networks, for bodies that are read */
  readonly #turns: Turns<string>

  constructor(components: SignedEndpointsComponents, options: SignedEndpointsOptions) {
    this.#components = components
    this.#options = options
    this.#turns = new Turns({
      maxRunning: options.maxSignedRequests,
      maxRunningOfSource: options.maxSignedRequestsOfNetwork,
      maxWaiting: options.maxWaitingSignedRequests,
      tooMany: () => tooMany(options.maxWaitingSignedRequests, 'signed requests that wait'),
    })
  }

  /**
   * Creates an endpoint. It throws TOO_MANY_STREAMS, DEADLINE_EXCEEDED, MESSAGE_TOO_LARGE, BODY_TOO_SLOW, and errors of
   * `own`.
   */
  create(own: SignedEndpoint): Endpoint<OwnAnswer> {
    const { path, methods } = own
    const check = async ({ life: { exchange }, head, target }: AskedRequest, checking: AbortSignal) => {
      const header = (name: string) => {
        const value = exchange.request.headers[name]
        return typeof value === 'string' ? value : undefined
      }
      const answer = await own.open({ name: target.path.slice(path.length), header })
      return await this.#read(exchange, head.contentLength, checking, answer)
    }
    return {
      path,
      methods,
      readsBodies: true,
      admit: this.#components.admission.sender(check),
      serve: async ({ status, mediaType, body }, { life }) => {
        life.exchange.answer(status, [...this.#components.headers(life), ...contentHeaders(mediaType)], body)
        return 'endpoint'
      },
    }
  }

  /** Waits for a turn, and reads the body. */
  async #read(
    exchange: Exchange,
    contentLength: number,
    checking: AbortSignal,
    answer: (body: AsyncIterable<Uint8Array>) => Promise<OwnAnswer>,
  ): Promise<OwnAnswer> {
    const { clock } = this.#components
    const { maxSignedRequests, maxSignedBodyBytes: maxBytes, signedBodyTimeoutMs } = this.#options
    const { crowdedSignedBodyMs, minSignedBodyRate } = this.#options
    checkLength(contentLength, { maxBytes })
    const late = clock.now() + signedBodyTimeoutMs
    const reading = linkedController(checking)
    const reclaim = () => reading.abort(tooMany(maxSignedRequests, 'signed requests'))
    const pace = new BodyPace(clock, { perSecond: minSignedBodyRate, overMs: crowdedSignedBodyMs })
    const begun = () => {
      pace.begin()
      return { since: clock.now(), isIdle: () => pace.isSlow, reclaim }
    }
    const end = await this.#turn(exchange.address, checking, begun)
    try {
      const bounds = { maxBytes, timeoutMs: late - clock.now(), signal: reading.signal }
      return await answer(pace.count(boundedBody(exchange, contentLength, bounds)))
    } finally {
      end()
      reading.dispose()
    }
  }

  /** Waits for a turn. At intervals, it has a network with more than its share make room. */
  async #turn(address = '', signal: AbortSignal, begun: () => Reclaimable): Promise<() => void> {
    const { clock } = this.#components
    const { signedBodyTimeoutMs, signedTurnPatienceMs, crowdedSignedBodyMs } = this.#options
    const network = networkOf(address)
    const waiting = linkedController(signal)
    const late = clock.now() + signedBodyTimeoutMs
    let cancel = () => {}
    const wait = () => {
      cancel = clock.after(Math.min(signedTurnPatienceMs, late - clock.now()), () => {
        const now = clock.now()
        if (now >= late) return waiting.abort(new KasError({ code: 'DEADLINE_EXCEEDED' }))
        this.#turns.reclaim(network, now - crowdedSignedBodyMs)
        wait()
      })
    }
    wait()
    try {
      return await this.#turns.take(network, waiting.signal, begun)
    } finally {
      cancel()
      waiting.dispose()
    }
  }
}

function tooMany(limit: number, what: string): KasError {
  return new KasError({ code: 'TOO_MANY_STREAMS', name: 'signed_requests', limit, what })
}
