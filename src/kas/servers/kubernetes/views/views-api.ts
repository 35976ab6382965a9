import type { Clock } from '../../../../lib/clock.ts'
import type { KasError } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import { viewsBounds, viewsProtocol } from '../../../../proto/views-json.ts'
import type { OwnEndpoint, ViewFeeds } from '../../../module.ts'
import type { Exchange } from '../http/exchange.ts'
import type { KubernetesLimits } from '../http/kubernetes-limits.ts'
import type { KubernetesMetrics } from '../http/metrics.ts'
import type { RequestHead } from '../request/request-head.ts'
import { ClientSocket } from '../websocket/client-socket.ts'
import { WebSocketUpgrade } from '../websocket/websocket-upgrade.ts'
import { snapshot } from './snapshot.ts'
import { type ViewsCaller, ViewsConversation } from './views-conversation.ts'

export interface ViewsApiComponents {
  readonly feeds: ViewFeeds
  readonly metrics: KubernetesMetrics
  readonly clock: Clock
  readonly log: Logger
}

export interface ViewsApiOptions {
  /** `gitlab-kas/<version>/<commit>` */
  readonly product: string
  readonly limits: KubernetesLimits
}

/** Views of one agent, over a WebSocket or one at a time (doc/views.md). */
export class ViewsApi {
  /** one view, as it is now; a request to upgrade is for `accept` */
  readonly endpoint: OwnEndpoint
  readonly #components: ViewsApiComponents
  readonly #limits: KubernetesLimits
  readonly #upgrade: WebSocketUpgrade

  constructor(components: ViewsApiComponents, { product, limits }: ViewsApiOptions) {
    const serve: OwnEndpoint['serve'] = (request) => snapshot(components.feeds, request)
    this.endpoint = { path: '/views', methods: ['GET'], serve }
    this.#components = components
    this.#limits = limits
    const { maxQueryBytes: maxMessageBytes } = viewsBounds
    this.#upgrade = new WebSocketUpgrade({
      protocol: viewsProtocol,
      product,
      maxMessageBytes,
      closeMs: limits.watchCloseMs,
    })
  }

  /**
   * Opens the WebSocket that was asked for.
   *
   * @throws KasError UPGRADE_REQUIRED, BAD_REQUEST; nothing has been answered then
   */
  accept(exchange: Exchange, { header }: RequestHead, caller: ViewsCaller): ViewsConversation {
    const socket = this.#upgrade.accept(exchange, header)
    const { feeds, clock, metrics, log } = this.#components
    const out = new ClientSocket(socket, clock, this.#limits)
    const failed = (error: KasError) => {
      metrics.failed(error.code)
      if (error.code === 'INTERNAL') log.error({ error }, 'A view failed')
      else log.debug({ error_code: error.code }, 'A view failed')
    }
    return new ViewsConversation({ feeds, socket, out, failed }, caller)
  }
}
