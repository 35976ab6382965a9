import type { Clock } from '../../../../lib/clock.ts'
import { KasError } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import { viewsBounds } from '../../../../proto/views-json.ts'
import type { OwnEndpoint, ViewFeeds } from '../../../module.ts'
import type { Exchange } from '../http/exchange.ts'
import type { KubernetesLimits } from '../http/kubernetes-limits.ts'
import type { KubernetesMetrics } from '../http/metrics.ts'
import type { RequestHead } from '../request/request-head.ts'
import { ByteBudget, ByteBudgets } from '../websocket/byte-budget.ts'
import { ClientSocket } from '../websocket/client-socket.ts'
import { WebSocketUpgrade } from '../websocket/websocket-upgrade.ts'
import { GraphConversation } from './graph-conversation.ts'
import type { ViewsCaller } from './views-conversation.ts'

export interface GraphApiComponents {
  readonly feeds: ViewFeeds
  readonly metrics: KubernetesMetrics
  readonly clock: Clock
  readonly log: Logger
}

export interface GraphApiOptions {
  /** `gitlab-kas/<version>/<commit>` */
  readonly product: string
  readonly limits: KubernetesLimits
}

/** Of GitLab's clients (doc/reference/tunnel-protocol.md 6.8). */
export const graphProtocol = 'gitlab-agent-graph-api'

/** What stands around a request in the query of its view. bytes */
const maxFrameBytes = 64

/** Graphs of one agent's cluster, as GitLab's clients ask for them (doc/graph.md). */
export class GraphApi {
  /** a request to upgrade is for `accept`; there is no other */
  readonly endpoint: OwnEndpoint = {
    path: '/graph',
    methods: ['GET'],
    serve: () => Promise.reject(new KasError({ code: 'UPGRADE_REQUIRED', protocol: graphProtocol })),
  }
  readonly #components: GraphApiComponents
  readonly #limits: KubernetesLimits
  readonly #upgrade: WebSocketUpgrade
  readonly #budgets: ByteBudgets

  constructor(components: GraphApiComponents, { product, limits }: GraphApiOptions) {
    this.#components = components
    this.#limits = limits
    this.#budgets = new ByteBudgets(limits.maxGraphAgentBytes)
    this.#upgrade = new WebSocketUpgrade({
      protocol: graphProtocol,
      product,
      maxMessageBytes: viewsBounds.maxQueryBytes - maxFrameBytes,
      closeMs: limits.watchCloseMs,
    })
  }

  /**
   * Opens the WebSocket that was asked for.
   *
   * @throws KasError UPGRADE_REQUIRED, BAD_REQUEST; nothing has been answered then
   */
  accept(exchange: Exchange, { header }: RequestHead, caller: ViewsCaller): GraphConversation {
    const socket = this.#upgrade.accept(exchange, header)
    const { feeds, clock, metrics, log } = this.#components
    const { maxGraphBytes, graphRequestMs: requestMs } = this.#limits
    const out = new ClientSocket(socket, clock, this.#limits)
    const { bytes, leave } = this.#budgets.enter(caller.agentId)
    socket.once('close', leave)
    const budget = new ByteBudget(maxGraphBytes, bytes)
    const failed = (error: KasError) => {
      metrics.failed(error.code)
      if (error.code === 'INTERNAL') log.error({ error }, 'A graph failed')
      else log.debug({ error_code: error.code }, 'A graph failed')
    }
    return new GraphConversation({ feeds, socket, out, budget, clock, failed }, caller, { requestMs })
  }
}
