import type { Clock } from '../../../../lib/clock.ts'
import { closeCodes } from '../../../../lib/close-codes.ts'
import { KasError, type LimitName } from '../../../../lib/errors.ts'
import { addressOf } from '../../../../lib/host-port.ts'
import {
  type FrontCheckAnswer,
  frontCheckPath,
  frontCheckProtocol,
  frontCheckScheme,
  unknownInstance,
} from '../../front-check-answer.ts'
import { boundedBody, checkLength } from '../http/bounded-body.ts'
import type { KubernetesLimits } from '../http/kubernetes-limits.ts'
import type { RequestOutcome } from '../http/metrics.ts'
import type { RequestHead } from '../request/request-head.ts'
import type { RequestLife } from '../request-life.ts'
import { contentHeaders } from '../response/own-answer.ts'
import { ClientSocket } from '../websocket/client-socket.ts'
import { WebSocketUpgrade } from '../websocket/websocket-upgrade.ts'
import type { Admission } from './admission.ts'
import type { Admit, AskedRequest, Endpoint } from './endpoint.ts'

export interface FrontCheckComponents {
  /** true for the id of a replica of this kas */
  readonly isReplica: (instance: string) => boolean
  readonly admission: Pick<Admission, 'sender'>
  /** headers of kas' own answers */
  readonly headers: (life: RequestLife) => string[]
  readonly clock: Clock
}

export interface FrontCheckOptions {
  /** `gitlab-kas/<version>/<commit>` */
  readonly product: string
  readonly limits: KubernetesLimits
}

/** Bounds of what runs at once. WebSockets live long, and are counted apart, so that they block no request. */
const maxRunning = {
  /** requests of `kas doctor` (`front_check_requests`) */
  requests: 32,
  /** WebSockets of `kas doctor` (`front_check_sockets`) */
  WebSockets: 32,
}
/** Time for a body to come. ms */
const bodyTimeoutMs = 10_000
/** More than an API server accepts. */
const maxBodyBytes = 4 * 1024 * 1024
/** Bytes of a message on the WebSocket, which is sent back. */
const maxMessageBytes = 1024
/** Longest life of a WebSocket. kas sends no PING on it: the time until a proxy cuts it can be measured. ms */
const maxSocketMs = 86_400_000

/** Serves `kas doctor`, which tests on 8154 what a front forwards (doc/operate/doctor.md "front"). */
export class FrontCheck implements Endpoint<void> {
  readonly path = frontCheckPath
  readonly methods = ['GET', 'POST']
  readonly readsBodies = true
  readonly admit: Admit<void>
  readonly #components: FrontCheckComponents
  readonly #limits: KubernetesLimits
  readonly #upgrade: WebSocketUpgrade
  readonly #running = { requests: 0, WebSockets: 0 }

  constructor(components: FrontCheckComponents, { product, limits }: FrontCheckOptions) {
    this.#components = components
    this.admit = components.admission.sender(async ({ head }) => this.#checkInstance(head))
    this.#limits = { ...limits, watchPingMs: maxSocketMs }
    this.#upgrade = new WebSocketUpgrade({
      protocol: frontCheckProtocol,
      product,
      maxMessageBytes,
      closeMs: limits.watchCloseMs,
    })
  }

  /** @throws KasError TOO_MANY_STREAMS, MESSAGE_TOO_LARGE, BODY_TOO_SLOW */
  serve(_: undefined, request: AskedRequest): Promise<RequestOutcome> {
    return this.#counted('requests', 'front_check_requests', () => this.#answer(request))
  }

  /** @throws KasError TOO_MANY_STREAMS, UPGRADE_REQUIRED */
  upgrade(_: undefined, request: AskedRequest): Promise<RequestOutcome> {
    return this.#counted('WebSockets', 'front_check_sockets', () => this.#echo(request))
  }

  async #counted(
    kind: keyof typeof maxRunning,
    name: LimitName,
    run: () => Promise<RequestOutcome>,
  ): Promise<RequestOutcome> {
    const limit = maxRunning[kind]
    if (this.#running[kind] >= limit)
      throw new KasError({ code: 'TOO_MANY_STREAMS', name, limit, what: `${kind} that check a front` })
    this.#running[kind]++
    try {
      return await run()
    } finally {
      this.#running[kind]--
    }
  }

  /** @throws KasError CREDENTIALS_INVALID */
  #checkInstance({ authorization }: Pick<RequestHead, 'authorization'>): void {
    const [value, ...others] = authorization
    if (value === undefined) throw invalid('front check: there is no Authorization header')
    const instance = value.startsWith(frontCheckScheme) ? value.slice(frontCheckScheme.length) : ''
    if (others.length > 0 || !this.#components.isReplica(instance)) throw invalid(unknownInstance)
  }

  async #answer({ life, head }: AskedRequest): Promise<RequestOutcome> {
    const { exchange } = life
    checkLength(head.contentLength, { maxBytes: maxBodyBytes })
    let bytes = 0
    const body = boundedBody(exchange, head.contentLength, { maxBytes: maxBodyBytes, timeoutMs: bodyTimeoutMs })
    for await (const chunk of body) bytes += chunk.length
    const { remote, origin } = exchange.connection
    const answer: FrontCheckAnswer = {
      client: exchange.address,
      sender: remote === undefined ? undefined : addressOf(remote),
      isTrusted: origin.isFront,
      isForwarded: exchange.request.headers['x-forwarded-for'] !== undefined,
      bytes,
    }
    const headers = [...this.#components.headers(life), ...contentHeaders('application/json')]
    exchange.answer(200, headers, JSON.stringify(answer))
    return 'endpoint'
  }

  async #echo({ life: { exchange }, head }: AskedRequest): Promise<RequestOutcome> {
    const socket = this.#upgrade.accept(exchange, head.header)
    const { clock } = this.#components
    const out = new ClientSocket(socket, clock, this.#limits)
    socket.on('message', (data) => {
      if (out.send(String(data))) out.close(closeCodes.policyViolation, 'it sends, and does not read')
    })
    const cancel = clock.after(maxSocketMs, () => out.close(closeCodes.normal, 'it was open for long enough'))
    await out.untilClosed(exchange.signal)
    cancel()
    return 'upgraded'
  }
}

function invalid(detail: string): KasError {
  return new KasError({ code: 'CREDENTIALS_INVALID', detail })
}
