import type { AgentId } from '../../../call/call.ts'
import type { Caller } from '../../../call/caller.ts'
import type { Target } from '../../../kubernetes/request/target.ts'
import { KasError } from '../../../lib/errors.ts'
import { clockDelay } from '../../../lib/pause.ts'
import { SharedRates } from '../../../lib/shared-rate.ts'
import { SharedRooms } from '../../../lib/shared-room.ts'
import { abortable, linkedController } from '../../../lib/signals.ts'
import type { Impersonation } from '../../../proto/http/http-message.ts'
import type { ReplicaMemory } from '../../memory/replica-memory.ts'
import type { OwnCaller, OwnEndpoint } from '../../own-endpoint.ts'
import type { Access } from './authorization/authorize.ts'
import type { Credentials } from './authorization/credentials.ts'
import { boundedBody, checkLength } from './http/bounded-body.ts'
import type { RequestOutcome } from './http/metrics.ts'
import { LongAnswers } from './long-answers.ts'
import { OwnSockets, type OwnSocketsComponents, type OwnSocketsOptions, type OwnWebSocket } from './own-sockets.ts'
import type { RequestHead } from './request/request-head.ts'
import type { RequestLife } from './request-life.ts'
import { type ContentHead, checkBodiless, checkMethod, contentHeaders } from './response/own-answer.ts'
import type { WatchApi } from './watch/watch-api.ts'
import type { WebSocketTokens } from './watch/websocket-tokens.ts'

export interface OwnEndpointsComponents extends OwnSocketsComponents {
  /** undefined: neither tokens nor watches over WebSocket */
  readonly webSocketTokens: Pick<WebSocketTokens, 'seal'> | undefined
  readonly watches: Pick<WatchApi, 'accept'>
  readonly endpoints: readonly OwnEndpoint[]
  readonly memory: Pick<ReplicaMemory, 'tenants'>
}

/** A token for a WebSocket, watches over one (doc/reference/tunnel-protocol.md 6.8), or what was handed in. */
export type Own = 'token' | 'watch' | OwnEndpoint

/** A request to kas itself, of a caller who may use the agent. */
export interface OwnCall {
  readonly life: RequestLife
  readonly head: RequestHead
  readonly target: Target
  readonly credentials: Credentials
  readonly caller: Caller
  readonly access: Pick<Access, 'userId' | 'via'>
  readonly impersonation: Impersonation | undefined
  /** of the answer, beside what it consists of */
  readonly headers: readonly string[]
}

/** what an agent has too many of */
const ownRequests = 'requests to kas itself about this agent'

/** Agents whose rate is known beside those that have rested. */
const maxAnsweredAgents = 10_000

/** What kas answers by itself on 8154. */
export class OwnEndpoints {
  readonly #components: OwnEndpointsComponents
  readonly #limits: OwnSocketsOptions['limits']
  /** of each agent: requests to `endpoints` whose answers have not been taken yet */
  readonly #running: SharedRooms<AgentId>
  /** of each agent: bytes of these answers. What a caller has over delays that caller's next one; jobs count for their user */
  readonly #answered: SharedRates<AgentId>
  readonly #long = new LongAnswers()
  /** of `endpoints` that have any */
  readonly #upgrades: ReadonlyMap<OwnEndpoint, OwnSockets>
  /** of each agent: WebSockets of `endpoints` */
  readonly #sockets: SharedRooms<AgentId>

  constructor(components: OwnEndpointsComponents, options: OwnSocketsOptions) {
    const { endpoints, clock } = components
    const { limits } = options
    this.#components = components
    this.#limits = limits
    this.#running = new SharedRooms({ name: 'own_requests_about_agent', limit: limits.maxOwnRequests })
    this.#answered = new SharedRates(clock, { ...limits.ownAnswerRate, maxKeys: maxAnsweredAgents })
    this.#sockets = new SharedRooms({ name: 'sockets_about_agent', limit: limits.maxOwnSockets })
    const upgradeOf = (endpoint: OwnEndpoint) =>
      endpoint.upgrade ? [[endpoint, new OwnSockets(endpoint.upgrade, components, options)] as const] : []
    this.#upgrades = new Map(endpoints.flatMap(upgradeOf))
  }

  /**
   * Undefined: the request is for the cluster.
   *
   * Without a secret for tokens, neither they nor watches are served (doc/reference/gitlab-contract.md 9.3 no. 25).
   *
   * @throws KasError NOT_SERVED, METHOD_NOT_ALLOWED, BAD_REQUEST
   */
  find(method: string, target: Pick<Target, 'path' | 'wantsToken'>, head: ContentHead): Own | undefined {
    const own = this.#find(method, target)
    if (own) checkBodiless(method, head)
    return own
  }

  #find(method: string, { path, wantsToken }: Pick<Target, 'path' | 'wantsToken'>): Own | undefined {
    const { webSocketTokens, endpoints } = this.#components
    if (path === '/watch' || wantsToken) {
      if (!webSocketTokens) throw new KasError({ code: 'NOT_SERVED', what: 'the watch API is off' })
      checkMethod(method, ['GET'])
      return wantsToken ? 'token' : 'watch'
    }
    const endpoint = endpoints.find((each) => each.path === path)
    if (endpoint) checkMethod(method, endpoint.methods)
    return endpoint
  }

  async serve(own: Own, call: OwnCall): Promise<RequestOutcome> {
    if (own === 'token') return await this.#seal(call)
    if (own === 'watch') return await this.#watch(call)
    const sockets = call.life.exchange.upgrade && this.#upgrades.get(own)
    return await (sockets ? this.#upgrade(sockets, call) : this.#answer(own, call))
  }

  async #seal({ life: { exchange }, target, credentials, headers }: OwnCall): Promise<RequestOutcome> {
    exchange.upgrade?.refused()
    const token = await this.#components.webSocketTokens?.seal(credentials, target.path)
    exchange.answer(200, [...headers, ...contentHeaders('application/json')], JSON.stringify({ token }))
    return 'token'
  }

  async #watch({ life, head, credentials, caller }: OwnCall): Promise<RequestOutcome> {
    const { exchange } = life
    const conversation = this.#components.watches.accept(exchange, head, { credentials, caller, span: life })
    life.opened()
    life.becomes(conversation)
    await conversation.run(exchange.signal)
    return 'upgraded'
  }

  async #upgrade(sockets: OwnSockets, call: OwnCall): Promise<RequestOutcome> {
    const { life, head, credentials, caller } = call
    const { exchange } = life
    const { agentId } = credentials
    let opened: OwnWebSocket | undefined
    const makeRoom = (reason: KasError) => {
      life.withdraw(reason)
      opened?.makeRoom(reason)
    }
    const hold = this.#sockets.enter(agentId, caller, { what: sockets.what, end: makeRoom })
    try {
      const asked = callerOf(call, 'socket')
      const socket = sockets.accept(exchange, head, asked)
      opened = socket
      if (!sockets.beginsByMessage) life.opened()
      life.becomes(socket)
      await socket.run(exchange.signal)
    } finally {
      hold.leave()
    }
    return 'upgraded'
  }

  async #answer(endpoint: OwnEndpoint, call: OwnCall): Promise<RequestOutcome> {
    const { credentials, caller } = call
    const { exchange } = call.life
    exchange.upgrade?.refused()
    checkLength(call.head.contentLength, { maxBytes: this.#limits.maxOwnBodyBytes })
    const ended = linkedController(exchange.signal)
    const end = (reason: KasError) => {
      ended.abort(reason)
      if (exchange.begun) exchange.cut()
    }
    const hold = this.#running.enter(credentials.agentId, caller, { what: ownRequests, end })
    try {
      return await this.#answerWithin(endpoint, call, ended.signal)
    } finally {
      ended.dispose()
      hold.leave()
    }
  }

  /** @param signal - the caller has left, or makes room for others */
  async #answerWithin(endpoint: OwnEndpoint, call: OwnCall, signal: AbortSignal): Promise<RequestOutcome> {
    const { head, target, credentials, caller, headers } = call
    const { exchange } = call.life
    const { agentId } = credentials
    const { maxOwnBodyBytes: maxBytes, ownBodyTimeoutMs: timeoutMs } = this.#limits
    const { maxOwnAnswerBytes, ownAnswerTimeoutMs } = this.#limits
    const answered = this.#answered.of(agentId)
    const { key, userKey: payer = key } = caller
    const waitMs = () => answered.msUntilPaid(payer)
    for (let ms = waitMs(); ms > 0; ms = waitMs()) await clockDelay(this.#components.clock, ms, signal)
    const serve = () =>
      endpoint.serve({
        ...callerOf(call, 'request'),
        method: exchange.request.method as string,
        query: new Map(target.query),
        body: boundedBody(exchange, head.contentLength, { maxBytes, timeoutMs, signal }),
        signal,
      })
    const tenant = this.#components.memory.tenants.of(agentId)
    const answer = endpoint.isLong ? this.#long.make(tenant, payer, signal, serve) : serve()
    const { status, mediaType, body } = await abortable(answer, signal)
    if (body.length > maxOwnAnswerBytes) throw new Error(`the answer of ${endpoint.path} has ${body.length} bytes`)
    answered.take(payer, body.length)
    const all = [...headers, ...contentHeaders(mediaType)]
    return (await exchange.answerInPieces(status, all, body, ownAnswerTimeoutMs)) ? 'endpoint' : 'cut'
  }
}

/** @param asks - a WebSocket is open at the latest when it is said what it shows */
function callerOf(call: OwnCall, asks: 'request' | 'socket'): OwnCaller {
  const { life, credentials, caller, impersonation, access } = call
  const { exchange } = life
  const shows = (text: string) => {
    life.shows(text)
    if (asks === 'socket') life.opened()
  }
  const who = { userId: access.userId, isJob: access.via === 'ci', address: exchange.address }
  return { agentId: credentials.agentId, caller, impersonation, who, shows }
}
