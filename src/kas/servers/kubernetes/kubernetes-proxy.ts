import type { AgentId, Forward } from '../../../call/call.ts'
import type { Caller } from '../../../call/caller.ts'
import { safetyOf } from '../../../call/safety.ts'
import { parseTarget, type Target, wholeTarget } from '../../../kubernetes/request/target.ts'
import { type Clock, monotonicClock, systemClock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import { SharedRooms } from '../../../lib/shared-room.ts'
import type { Tracer } from '../../../lib/tracing/tracer.ts'
import { kubernetesApiMethod } from '../../../proto/http/http-over-grpc.ts'
import type { AccessLog } from '../../access-log/access-log.ts'
import { CallRecord, type ObserveCall } from '../../access-log/call-record.ts'
import type { Directory } from '../../directory/directory.ts'
import { noUsage, type Usage } from '../../directory/usage.ts'
import type { ReplicaMemory } from '../../memory/replica-memory.ts'
import type { OwnEndpoint, SignedEndpoint, UserEndpoint } from '../../own-endpoint.ts'
import type { Arrivals } from '../arrivals.ts'
import type { FrontTickets } from '../front-tickets.ts'
import { accessLost } from './authorization/authorization-rechecks.ts'
import { type Access, type Authorized, authorize, callerNames } from './authorization/authorize.ts'
import type { CallerKeys } from './authorization/caller-keys.ts'
import { type Credentials, isByCookie, readCredentials } from './authorization/credentials.ts'
import { refuseNames } from './authorization/impersonation.ts'
import type { Sessions } from './authorization/sessions.ts'
import { Endings } from './endings.ts'
import { FrontCheck } from './front-check.ts'
import { type FrontRedirect, redirectTo } from './front-redirect.ts'
import type { Exchange } from './http/exchange.ts'
import type { KubernetesLimits } from './http/kubernetes-limits.ts'
import type { KubernetesMetrics, RequestOutcome } from './http/metrics.ts'
import { bodilessMessages } from './http/request-messages.ts'
import { RequestSpan } from './http/request-span.ts'
import { letIn } from './let-in.ts'
import { observeBy } from './observers.ts'
import { OwnEndpoints } from './own-endpoints.ts'
import { proxyUsage } from './proxy-usage.ts'
import { Relay } from './relay.ts'
import { namesCaller, readAuthorization } from './request/bearer-protocol.ts'
import { isSentToGitlab } from './request/passed-cookies.ts'
import {
  isPreflight,
  nameClient,
  nameHost,
  passCookies,
  type RequestHead,
  readRequestHead,
} from './request/request-head.ts'
import { RequestLife, type RequestLifeComponents } from './request-life.ts'
import { originHeaders, preflightHeaders } from './response/cors.ts'
import type { ResponseRules } from './response/response-head.ts'
import { headEncoder, sentMessages } from './sent-head.ts'
import { SignedEndpoints } from './signed-endpoints.ts'
import { UserEndpoints } from './user-endpoints.ts'
import { ResumedWatches } from './watch/resume/resumed-watches.ts'
import { watchQuestion } from './watch/resume/watch-question.ts'
import { WatchApi } from './watch/watch-api.ts'
import type { WebSocketTokens } from './watch/websocket-tokens.ts'

export interface KubernetesProxyComponents {
  readonly forward: Forward
  readonly directory: Pick<Directory, 'grantJob' | 'grantUser'>
  readonly metrics: KubernetesMetrics
  readonly arrivals: Pick<Arrivals, 'admit'>
  readonly callerKeys: Pick<CallerKeys, 'of'>
  readonly memory: ReplicaMemory
  readonly sessions: Pick<Sessions, 'begin' | 'open'>
  /** counts who was let through; absent: nobody does */
  readonly usage?: Usage
  /** absent: nobody writes down who did what */
  readonly accessLog?: AccessLog
  /** absent: nobody sees requests */
  readonly observers?: readonly ObserveCall[]
  readonly clock?: Clock
  readonly log: Logger
  /** absent: neither tokens nor watches over WebSocket */
  readonly webSocketTokens?: WebSocketTokens
  /** absent: nothing is answered here beside tokens and watches */
  readonly endpoints?: readonly OwnEndpoint[]
  /** absent: nothing is answered to users about themselves */
  readonly userEndpoints?: readonly UserEndpoint[]
  /** absent: nothing is taken by a signature */
  readonly signedEndpoints?: readonly SignedEndpoint[]
  /** absent: no front can be checked */
  readonly frontTickets?: Pick<FrontTickets, 'isValid'>
  /** absent: this replica forwards all requests itself */
  readonly redirect?: Pick<FrontRedirect, 'locationFor'>
  readonly tracer: Tracer
}

export interface KubernetesProxyOptions {
  /** ends with `/` */
  readonly urlPathPrefix: string
  /** `gitlab-kas/<version>/<commit>` */
  readonly product: string
  readonly allowsOrigin: (origin: string) => boolean
  /** of `gitlab.external_url`; undefined: there is no GitLab */
  readonly gitlabHost: string | undefined
  readonly limits: KubernetesLimits
  /** what is done with answers, beside the rules that always hold */
  readonly responses: Omit<ResponseRules, 'via'>
}

/** A request whose caller was let in. */
interface LetIn {
  readonly life: RequestLife
  readonly head: RequestHead
  readonly target: Target
  readonly credentials: Credentials
  readonly letInAs: Authorized
  readonly caller: Caller
}

/** A watch that goes on is let in by an answer of the directory that is no older. ms */
const reopenedAccessMs = 45_000
/** Carries one request at a time to its agent and the answer back (doc/reference/tunnel-protocol.md 6). */
export class KubernetesProxy {
  readonly #components: KubernetesProxyComponents
  readonly #options: KubernetesProxyOptions
  readonly #via: string
  readonly #relay: Relay
  readonly #observe: ObserveCall
  readonly #countAccess: (access: Access) => void
  readonly #own: OwnEndpoints
  readonly #ofUsers: UserEndpoints
  readonly #signed: SignedEndpoints
  readonly #frontCheck: FrontCheck | undefined
  readonly #watches: ResumedWatches
  readonly #endings: Endings
  readonly #lives: RequestLifeComponents

  constructor(components: KubernetesProxyComponents, options: KubernetesProxyOptions) {
    const { product, limits, responses } = options
    const { webSocketTokens, endpoints = [], userEndpoints = [], arrivals } = components
    this.#components = components
    this.#options = options
    this.#observe = observeBy(components.observers ?? [], { clock: systemClock, ...components })
    this.#via = `gRPC/1.0 ${product}`
    this.#relay = new Relay({ ...responses, via: this.#via })
    const { forward, metrics } = components
    const kept = new SharedRooms<AgentId>({ name: 'watch_bytes_about_agent', limit: limits.maxWatchAgentBytes })
    this.#watches = new ResumedWatches({ forward, onResumed: metrics.watchResumed, kept }, limits)
    const headers = (life: RequestLife) => this.#ownHeaders(life)
    this.#endings = new Endings({ ...components, headers })
    this.#lives = { clock: systemClock, ...components }
    this.#countAccess = proxyUsage(components.usage ?? noUsage)
    const parts = {
      clock: systemClock,
      ...components,
      kept,
      watches: this.#watches,
      observe: this.#observe,
      countAccess: this.#countAccess,
    }
    const watches = new WatchApi(parts, { product, limits, via: this.#via })
    this.#ofUsers = new UserEndpoints({ endpoints: userEndpoints, arrivals }, limits)
    const { signedEndpoints = [], clock = monotonicClock } = components
    this.#signed = new SignedEndpoints({ endpoints: signedEndpoints, arrivals, clock }, limits)
    const { frontTickets: tickets } = components
    this.#frontCheck = tickets && new FrontCheck({ tickets, arrivals, clock: systemClock }, { product, limits })
    this.#own = new OwnEndpoints({ ...parts, webSocketTokens, watches, endpoints }, { product, limits })
  }

  /** Answers, whatever happens; never rejects. */
  serve(exchange: Exchange): Promise<void> {
    return this.#run(exchange, (life) => this.#serve(life))
  }

  /** Refuses a request for what its head says; never rejects. */
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

  /** The order of checks of doc/reference/tunnel-protocol.md 6.1. */
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
    let target = life.asks(parseTarget(request.url as string, this.#options.urlPathPrefix, head))
    head.authorization = readAuthorization(head)
    const { directory, sessions } = this.#components
    const ofUser = this.#ofUsers.find(method, target, head)
    if (ofUser) return await this.#ofUsers.serve(ofUser, { life, head, headers: this.#ownHeaders(life) })
    const signed = this.#signed.find(method, target)
    if (signed) return await this.#signed.serve(signed, life, head, this.#ownHeaders(life))
    if (this.#frontCheck?.isAsked(method, target))
      return await this.#frontCheck.serve(life, head, this.#ownHeaders(life))
    const own = this.#own.find(method, target, head)
    const sealed = own === 'token' ? undefined : this.#openToken(exchange, head, target)
    const credentials = sealed ? await sealed : readCredentials(head, target)
    life.calls(credentials.agentId)
    const ask = (signal: AbortSignal) =>
      authorize(directory, credentials, signal, { from: exchange.address, onKnown: (who) => life.knows(who) })
    const since = sessions.begin()
    const letInAs = await this.#components.arrivals.admit(exchange.arrived, ask, exchange.signal)
    const caller = this.#components.callerKeys.of(callerNames(letInAs.access))
    letIn(this.#components.memory, life, { credentials, letInAs, caller, target })
    if (target.long) target = life.asks(wholeTarget(target))
    if (head.askedAs.length > 0) refuseNames(letInAs.impersonation, { isOwn: own !== undefined })
    exchange.signal.throwIfAborted()
    life.opens(sessions, { credentials, letInAs, since })
    try {
      const call = { life, head, target, credentials, letInAs, caller }
      return own ? await this.#own.serve(own, this.#ownCall(call)) : await this.#forward(call)
    } finally {
      life.settle()
    }
  }

  #ownCall({ letInAs, ...call }: LetIn) {
    const { impersonation, access } = letInAs
    return { ...call, impersonation, access, headers: this.#ownHeaders(call.life) }
  }

  async #forward({ life, head, target, credentials, letInAs, caller }: LetIn): Promise<RequestOutcome> {
    const { exchange } = life
    const { request } = exchange
    const { directory } = this.#components
    const method = request.method as string
    const body = head.contentLength !== 0
    const safety = safetyOf({ method, path: target.path, upgrade: head.upgrade.length > 0, body })
    const watch = watchQuestion({ method, safety }, target, head)
    const mayRedirect = !body && !watch // which goes on when the holder is lost
    const location = mayRedirect ? this.#components.redirect?.locationFor(request, credentials.agentId) : undefined
    if (location !== undefined) return await redirectTo(location, exchange)
    this.#countAccess(letInAs.access)
    const call = {
      agentId: credentials.agentId,
      method: kubernetesApiMethod,
      metadata: life.metadata,
      safety,
      caller,
      isWatch: exchange.asked === 'watch',
      isLog: exchange.asked === 'log',
      record: life,
      signal: exchange.signal,
    }
    const { impersonation } = letInAs
    const isOfGitlab = isSentToGitlab(head, this.#options.gitlabHost) // before headers that are not believed are removed
    if (exchange.forwardedAddress !== undefined) nameClient(head, exchange.forwardedAddress)
    nameHost(head, exchange.calledAs)
    if (!isByCookie(credentials) && !isOfGitlab) passCookies(head)
    const encode = headEncoder(request, head, target, { impersonation, auditId: life.auditId, via: this.#via })
    const mayGoOn = async (signal: AbortSignal) => {
      const question = { maxAgeMs: reopenedAccessMs }
      const reason = await accessLost(letInAs, () => authorize(directory, credentials, signal, question))
      if (!reason) return
      life.end(reason)
      throw reason
    }
    life.forwarding()
    const reply = watch
      ? await this.#watches.open(
          watch,
          { ...call, messagesOf: (query) => bodilessMessages(encode(query)) },
          { mayGoOn, kept: (reason) => exchange.endWithReason?.(reason) },
        )
      : await this.#components.forward({ ...call, messages: sentMessages(exchange, head, encode(target.query)) })
    life.delivered()
    return await this.#relay.run(life, reply)
  }

  /** Undefined: no token, or none that counts: it opens WebSockets alone, and gives way to an Authorization header. */
  #openToken(exchange: Exchange, head: RequestHead, target: Target): Promise<Credentials> | undefined {
    if (head.webSocketTokens.length === 0 || head.authorization.length > 0 || !exchange.upgrade) return undefined
    return this.#components.webSocketTokens?.open(head.webSocketTokens, target.path)
  }

  #ownHeaders({ progress: { origin, warning } }: RequestLife): string[] {
    const own = ['Server', this.#options.product, ...(warning === undefined ? [] : ['Warning', warning])]
    return origin === undefined ? own : [...own, ...originHeaders(origin)]
  }
}
