import type { AgentId } from '../../../../call/call.ts'
import type { KasError } from '../../../../lib/errors.ts'
import { clockDelay } from '../../../../lib/pause.ts'
import { SharedRates } from '../../../../lib/shared-rate.ts'
import { SharedRooms } from '../../../../lib/shared-room.ts'
import { abortable, linkedController } from '../../../../lib/signals.ts'
import type { ReplicaMemory } from '../../../memory/replica-memory.ts'
import type { OwnCaller, OwnEndpoint } from '../../../own-endpoint.ts'
import { boundedBody, checkLength, pacedBody } from '../http/bounded-body.ts'
import type { RequestOutcome } from '../http/metrics.ts'
import type { RequestLife } from '../request-life.ts'
import { contentHeaders } from '../response/own-answer.ts'
import type { AskedRequest, Endpoint, ForCallers, LetIn } from './endpoint.ts'
import { LongAnswers } from './long-answers.ts'
import { OwnSockets, type OwnSocketsComponents, type OwnSocketsOptions, type OwnWebSocket } from './own-sockets.ts'

export interface OwnEndpointsComponents extends OwnSocketsComponents {
  readonly memory: Pick<ReplicaMemory, 'tenants'>
  /** headers of kas' own answers */
  readonly headers: (life: RequestLife) => string[]
}

/** Name of the counted requests, for refusals. */
const ownRequests = 'requests to kas itself about this agent'

/** Agents with a used rate that are kept; rested agents need no entry. */
const maxAnsweredAgents = 10_000

/** Serves requests about an agent to callers that may use it: a few at once about each agent. */
export class OwnEndpoints {
  readonly #components: OwnEndpointsComponents
  readonly #options: OwnSocketsOptions
  readonly #limits: OwnSocketsOptions['limits']
  /** requests about each agent whose answers were not taken yet */
  readonly #running: SharedRooms<AgentId>
  /** bytes of answers about each agent; a caller over its share waits for its next one; jobs count for their user */
  readonly #answered: SharedRates<AgentId>
  readonly #long = new LongAnswers()
  /** WebSockets about each agent */
  readonly #sockets: SharedRooms<AgentId>

  constructor(components: OwnEndpointsComponents, options: OwnSocketsOptions) {
    const { limits } = options
    this.#components = components
    this.#options = options
    this.#limits = limits
    this.#running = new SharedRooms({ name: 'own_requests_about_agent', limit: limits.maxOwnRequests })
    this.#answered = new SharedRates(components.clock, { ...limits.ownAnswerRate, maxKeys: maxAnsweredAgents })
    this.#sockets = new SharedRooms({ name: 'sockets_about_agent', limit: limits.maxOwnSockets })
  }

  /** Creates an endpoint from a module's definition. */
  create(own: OwnEndpoint, callers: ForCallers): Endpoint<LetIn> {
    const { path, methods, upgrade } = own
    const sockets = upgrade && new OwnSockets(upgrade, this.#components, this.#options)
    return {
      path,
      methods,
      ...callers,
      serve: (letIn, request) => this.#answer(own, letIn, request),
      ...(sockets ? { upgrade: (letIn: LetIn, request: AskedRequest) => this.#upgrade(sockets, letIn, request) } : {}),
    }
  }

  async #upgrade(sockets: OwnSockets, letIn: LetIn, request: AskedRequest): Promise<RequestOutcome> {
    const { credentials, caller } = letIn
    const { life, head } = request
    const { exchange } = life
    const { agentId } = credentials
    let opened: OwnWebSocket | undefined
    const makeRoom = (reason: KasError) => {
      life.withdraw(reason)
      opened?.makeRoom(reason)
    }
    const hold = this.#sockets.enter(agentId, caller, { what: sockets.what, end: makeRoom })
    try {
      const asked = callerOf(letIn, life, 'socket')
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

  async #answer(own: OwnEndpoint, letIn: LetIn, request: AskedRequest): Promise<RequestOutcome> {
    const { credentials, caller } = letIn
    const { exchange } = request.life
    const { maxBytes } = own.body ?? { maxBytes: this.#limits.maxOwnBodyBytes }
    checkLength(request.head.contentLength, { maxBytes })
    const ended = linkedController(exchange.signal)
    const end = (reason: KasError) => {
      ended.abort(reason)
      if (exchange.begun) exchange.cut()
    }
    const hold = this.#running.enter(credentials.agentId, caller, { what: ownRequests, end })
    try {
      return await this.#answerWithin(own, letIn, request, ended.signal)
    } finally {
      ended.dispose()
      hold.leave()
    }
  }

  /** @param signal - aborts when the caller leaves, or makes room for others */
  async #answerWithin(
    own: OwnEndpoint,
    letIn: LetIn,
    { life, head, target }: AskedRequest,
    signal: AbortSignal,
  ): Promise<RequestOutcome> {
    const { exchange } = life
    const { caller } = letIn
    const { agentId } = letIn.credentials
    const { maxOwnBodyBytes: maxBytes, ownBodyTimeoutMs: timeoutMs } = this.#limits
    const { maxOwnAnswerBytes, ownAnswerTimeoutMs } = this.#limits
    const answered = this.#answered.of(agentId)
    const { key, userKey: payer = key } = caller
    const waitMs = () => answered.msUntilPaid(payer)
    for (let ms = waitMs(); ms > 0; ms = waitMs()) await clockDelay(this.#components.clock, ms, signal)
    const serve = () =>
      own.serve({
        ...callerOf(letIn, life, 'request'),
        method: exchange.request.method as string,
        query: new Map(target.query),
        id: life.auditId,
        body: own.body
          ? pacedBody(exchange, head.contentLength, { ...own.body, clock: this.#components.clock, signal })
          : boundedBody(exchange, head.contentLength, { maxBytes, timeoutMs, signal }),
        memory: { take: (bytes) => exchange.countKept(bytes), give: (bytes) => exchange.countKept(-bytes) },
        signal,
      })
    const tenant = this.#components.memory.tenants.of(agentId)
    const answer = own.isLong ? this.#long.make(tenant, payer, signal, serve) : serve()
    const { status, mediaType, body } = await abortable(answer, signal)
    if (body.length > maxOwnAnswerBytes) throw new Error(`the answer of ${own.path} has ${body.length} bytes`)
    answered.take(payer, body.length)
    const all = [...this.#components.headers(life), ...contentHeaders(mediaType)]
    return (await exchange.answerInPieces(status, all, body, ownAnswerTimeoutMs)) ? 'endpoint' : 'cut'
  }
}

/** @param asks - a WebSocket counts as open once `shows` is called, at the latest */
function callerOf({ credentials, letInAs, caller }: LetIn, life: RequestLife, asks: 'request' | 'socket'): OwnCaller {
  const { access, impersonation, projectIds } = letInAs
  const shows = (text: string) => {
    life.shows(text)
    if (asks === 'socket') life.opened()
  }
  const who = { userId: access.userId, isJob: access.via === 'ci', projectIds, address: life.exchange.address }
  return { agentId: credentials.agentId, caller, impersonation, who, shows }
}
