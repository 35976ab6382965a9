import type { WebSocket } from 'ws'
import type { AgentId, Forward } from '../../../../call/call.ts'
import type { Clock } from '../../../../lib/clock.ts'
import type { Logger } from '../../../../lib/log.ts'
import type { Headers, Impersonation } from '../../../../proto/http/http-message.ts'
import { encodeHttpRequest, kubernetesApiMethod } from '../../../../proto/http/http-over-grpc.ts'
import type { Directory } from '../../../directory/directory.ts'
import { type Access, authorize, callerName } from '../access/authorize.ts'
import type { CallerKeys } from '../access/caller-keys.ts'
import type { Credentials } from '../access/credentials.ts'
import type { Exchange } from '../http/exchange.ts'
import type { KubernetesLimits } from '../http/kubernetes-limits.ts'
import type { KubernetesMetrics } from '../http/metrics.ts'
import { bodilessMessages } from '../http/request-messages.ts'
import type { RequestSpan } from '../http/request-span.ts'
import type { RequestHead } from '../request/request-head.ts'
import { ClientSocket } from '../websocket/client-socket.ts'
import { WebSocketUpgrade } from '../websocket/websocket-upgrade.ts'
import { PartialBytes } from './partial-bytes.ts'
import { WatchConversation } from './watch-conversation.ts'
import type { WatchRequest } from './watch-message.ts'

export interface WatchApiComponents {
  readonly forward: Forward
  readonly directory: Pick<Directory, 'grantJob' | 'grantUser'>
  readonly metrics: KubernetesMetrics
  readonly countAccess: (access: Access) => void
  readonly callerKeys: Pick<CallerKeys, 'of'>
  readonly clock: Clock
  readonly log: Logger
}

export interface WatchApiOptions {
  /** `gitlab-kas/<version>/<commit>` */
  readonly product: string
  /** kas' entry of Via */
  readonly via: string
  readonly limits: KubernetesLimits
}

/** doc/reference/tunnel-protocol.md 6.8 */
export const watchProtocol = 'gitlab-agent-watch-api'

/**
 * The WebSocket of GitLab's pages, over which they watch several resources at once
 * (doc/reference/tunnel-protocol.md 6.8).
 */
export class WatchApi {
  readonly #components: WatchApiComponents
  readonly #options: WatchApiOptions
  readonly #upgrade: WebSocketUpgrade
  /** of agents that are being watched */
  readonly #kept = new Map<AgentId, { readonly bytes: PartialBytes; sockets: number }>()

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
   * Opens the WebSocket that was asked for.
   *
   * @param span - of the whole conversation, which its watches are part of
   * @throws KasError UPGRADE_REQUIRED, BAD_REQUEST; nothing has been answered then
   */
  accept(exchange: Exchange, { header }: RequestHead, credentials: Credentials, span: RequestSpan): WatchConversation {
    const socket = this.#upgrade.accept(exchange, header)
    const { directory, metrics, countAccess, callerKeys, clock, log } = this.#components
    const { limits } = this.#options
    const userAgent = header.find(([name]) => name === 'User-Agent')
    return new WatchConversation(
      {
        socket,
        out: new ClientSocket(socket, clock, limits),
        keptOfAgent: this.#keptOfAgent(credentials.agentId, socket),
        authorize: async (signal) => {
          const { impersonation, access } = await authorize(directory, credentials, signal)
          countAccess(access)
          return { impersonation, caller: callerKeys.of(callerName(access)) }
        },
        open: (request, { impersonation, caller }, signal) =>
          this.#components.forward({
            agentId: credentials.agentId,
            method: kubernetesApiMethod,
            metadata: span.metadata,
            messages: this.#messages(request, impersonation, userAgent ? [userAgent] : []),
            safety: 'safe',
            caller,
            isWatch: true,
            signal,
          }),
        failed: (error, traceId) => {
          metrics.failed(error.code)
          if (error.code === 'INTERNAL') log.error({ error, trace_id: traceId }, 'A watch failed')
          else log.debug({ error_code: error.code, trace_id: traceId }, 'A watch failed')
        },
        traceId: span.traceId,
      },
      limits,
    )
  }

  #keptOfAgent(agentId: AgentId, socket: WebSocket): PartialBytes {
    const kept = this.#kept.get(agentId) ?? {
      bytes: new PartialBytes(this.#options.limits.maxWatchAgentBytes),
      sockets: 0,
    }
    this.#kept.set(agentId, kept)
    kept.sockets++
    socket.once('close', () => {
      kept.sockets--
      if (kept.sockets === 0) this.#kept.delete(agentId)
    })
    return kept.bytes
  }

  #messages(request: WatchRequest, impersonation: Impersonation | undefined, clientHeaders: Headers) {
    const header = encodeHttpRequest.header({
      method: 'GET',
      urlPath: request.path,
      query: request.query,
      header: [...clientHeaders, ['Accept', ['application/json']], ['Via', [this.#options.via]]],
      contentLength: 0,
      impersonation,
    })
    return bodilessMessages(header)
  }
}
