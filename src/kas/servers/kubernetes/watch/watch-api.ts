import type { WebSocket } from 'ws'
import type { AgentId, Forward, Metadata, Reply } from '../../../../call/call.ts'
import type { Caller } from '../../../../call/caller.ts'
import { countedByBoth } from '../../../../lib/byte-budget.ts'
import type { Clock } from '../../../../lib/clock.ts'
import type { KasError } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import type { Hold, SharedRooms } from '../../../../lib/shared-room.ts'
import type { Headers, Impersonation } from '../../../../proto/http/http-message.ts'
import { encodeHttpRequest, kubernetesApiMethod } from '../../../../proto/http/http-over-grpc.ts'
import type { AccessLog } from '../../../access-log/access-log.ts'
import { auditIdHeader, CallRecord, type ObserveCall } from '../../../access-log/call-record.ts'
import type { Directory } from '../../../directory/directory.ts'
import { accessLost } from '../authorization/authorization-rechecks.ts'
import { type Access, type Authorized, authorize, callerNames } from '../authorization/authorize.ts'
import type { CallerKeys } from '../authorization/caller-keys.ts'
import type { Credentials } from '../authorization/credentials.ts'
import type { Exchange } from '../http/exchange.ts'
import type { KubernetesLimits } from '../http/kubernetes-limits.ts'
import type { KubernetesMetrics } from '../http/metrics.ts'
import { bodilessMessages } from '../http/request-messages.ts'
import type { RequestSpan } from '../http/request-span.ts'
import { forwardedForHeader, type RequestHead } from '../request/request-head.ts'
import { ClientSocket } from '../websocket/client-socket.ts'
import { WebSocketUpgrade } from '../websocket/websocket-upgrade.ts'
import { keptEvents, type ResumedWatches } from './resume/resumed-watches.ts'
import { watchQuestion } from './resume/watch-question.ts'
import { type HowOpened, type WatchAccess, WatchConversation } from './watch-conversation.ts'
import type { WatchRequest } from './watch-message.ts'

export interface WatchApiComponents {
  readonly forward: Forward
  readonly watches: Pick<ResumedWatches, 'open'>
  /** memory for incomplete events, of all watches of an agent */
  readonly kept: SharedRooms<AgentId>
  readonly directory: Pick<Directory, 'grantJob' | 'grantUser'>
  readonly metrics: KubernetesMetrics
  readonly countAccess: (access: Access) => void
  readonly callerKeys: Pick<CallerKeys, 'of'>
  /** absent: requests are not logged */
  readonly accessLog?: AccessLog
  /** observes each watch */
  readonly observe: ObserveCall
  readonly clock: Clock
  readonly log: Logger
}

/** A watch to open over a WebSocket. */
interface Opening extends HowOpened {
  readonly agentId: AgentId
  readonly metadata: Metadata
  readonly clientHeaders: Headers
  /** asks for the client's current access */
  readonly ask: () => Promise<Authorized>
}

/** The caller that opens a WebSocket. */
export interface WatchClient {
  readonly credentials: Credentials
  readonly caller: Caller
  /** span of the whole conversation, which includes its watches */
  readonly span: Pick<RequestSpan, 'traceId' | 'metadata'>
}

export interface WatchApiOptions {
  /** `gitlab-kas/<version>/<commit>` */
  readonly product: string
  /** kas' entry in the Via header */
  readonly via: string
  readonly limits: KubernetesLimits
}

/** doc/reference/tunnel-protocol.md 6.8 */
export const watchProtocol = 'gitlab-agent-watch-api'

/** Serves the WebSocket over which GitLab's pages watch several resources (doc/reference/tunnel-protocol.md 6.8). */
export class WatchApi {
  readonly #components: WatchApiComponents
  readonly #options: WatchApiOptions
  readonly #upgrade: WebSocketUpgrade

  constructor(components: WatchApiComponents, options: WatchApiOptions) {
    this.#components = components
    this.#options = options
    const { maxWatchMessageBytes, watchCloseMs } = options.limits
    this.#upgrade = new WebSocketUpgrade({
      protocol: watchProtocol,
      product: options.product,
      maxMessageBytes: maxWatchMessageBytes,
      closeMs: watchCloseMs,
    })
  }

  /**
   * Opens the WebSocket that a request asks for.
   *
   * @throws KasError UPGRADE_REQUIRED, BAD_REQUEST; nothing has been answered then
   */
  accept(exchange: Exchange, { header }: RequestHead, { credentials, caller, span }: WatchClient): WatchConversation {
    const socket = this.#upgrade.accept(exchange, header)
    const { directory, metrics, countAccess, callerKeys, accessLog, observe, clock, log } = this.#components
    const { limits } = this.#options
    const userAgent = header.find(([name]) => name === 'User-Agent')
    const end = (reason: KasError) => conversation.withdraw(reason)
    const conversation: WatchConversation = new WatchConversation(
      {
        socket,
        out: new ClientSocket(socket, clock, limits, exchange.memory),
        keptOfAgent: countedByBoth(
          this.#keptOfAgent(socket, { agentId: credentials.agentId, caller, end }),
          exchange.memory,
        ),
        record: (request) => {
          const record = new CallRecord({ log: accessLog, observe }, exchange, span.traceId)
          record.asks('GET', request, { lasts: true, isUpgrade: false })
          record.calls(credentials.agentId)
          return record
        },
        authorize: async (signal, record) => {
          const letInAs = await authorize(directory, credentials, signal, { onKnown: (who) => record.knows(who) })
          const { impersonation, access } = letInAs
          countAccess(access)
          record.letIn(access, impersonation?.username)
          return { letInAs, caller: callerKeys.of(callerNames(access)) }
        },
        open: (request, access, how) => {
          const { agentId } = credentials
          const ask = () => authorize(directory, credentials, how.signal)
          const clientHeaders: Headers = userAgent ? [userAgent] : []
          if (exchange.forwardedAddress !== undefined)
            clientHeaders.push([forwardedForHeader, [exchange.forwardedAddress]])
          return this.#open(request, access, { ...how, agentId, metadata: span.metadata, clientHeaders, ask })
        },
        failed: (error, traceId) => {
          metrics.failed(error.code)
          if (error.code === 'INTERNAL') log.error({ error, trace_id: traceId }, 'A watch failed')
          else log.debug({ error_code: error.code, trace_id: traceId }, 'A watch failed')
        },
        traceId: span.traceId,
      },
      limits,
    )
    return conversation
  }

  #open({ path, query }: WatchRequest, { letInAs, caller }: WatchAccess, how: Opening): Promise<Reply> {
    const { impersonation } = letInAs
    const { agentId, metadata, kept, record, signal, withdrawn, ask } = how
    const messagesOf = (asked: WatchRequest['query']) => this.#messages({ path, query: asked }, impersonation, how)
    const call = {
      agentId,
      method: kubernetesApiMethod,
      metadata,
      safety: 'safe',
      caller,
      isWatch: true,
      observer: record,
      signal,
    } as const
    const question = watchQuestion({ method: 'GET', safety: 'safe' }, { path, query }, { accept: [] })
    if (!question) return this.#components.forward({ ...call, messages: messagesOf(query) })
    const mayGoOn = async () => {
      const reason = await accessLost(letInAs, ask)
      if (!reason) return
      withdrawn()
      throw reason
    }
    return this.#components.watches.open(question, { ...call, messagesOf }, { mayGoOn, kept })
  }

  #keptOfAgent(
    socket: WebSocket,
    { agentId, caller, end }: { agentId: AgentId; caller: Caller; end: (reason: KasError) => void },
  ): Hold {
    const hold = this.#components.kept.enter(agentId, caller, { what: keptEvents, end, amount: 0 })
    socket.once('close', () => hold.leave())
    return hold
  }

  #messages(
    request: WatchRequest,
    impersonation: Impersonation | undefined,
    { clientHeaders, record }: Pick<Opening, 'clientHeaders' | 'record'>,
  ) {
    const header = encodeHttpRequest.header({
      method: 'GET',
      urlPath: request.path,
      query: request.query,
      header: [
        ...clientHeaders,
        ['Accept', ['application/json']],
        ['Via', [this.#options.via]],
        [auditIdHeader, [record.auditId]],
      ],
      contentLength: 0,
      impersonation,
    })
    return bodilessMessages(header)
  }
}
