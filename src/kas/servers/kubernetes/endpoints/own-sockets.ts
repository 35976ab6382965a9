import type { Clock } from '../../../../lib/clock.ts'
import { closeCodes, endCode } from '../../../../lib/close-codes.ts'
import { KasError, limitField } from '../../../../lib/errors.ts'
import { guarded } from '../../../../lib/guarded.ts'
import type { Logger } from '../../../../lib/log.ts'
import type { Impersonation } from '../../../../proto/http/http-message.ts'
import type { OpenedSocket, OwnCaller, OwnConversation, OwnUpgrade } from '../../../own-endpoint.ts'
import type { Exchange } from '../http/exchange.ts'
import type { KubernetesLimits } from '../http/kubernetes-limits.ts'
import type { KubernetesMetrics } from '../http/metrics.ts'
import type { RequestHead } from '../request/request-head.ts'
import { ClientSocket } from '../websocket/client-socket.ts'
import { WebSocketUpgrade } from '../websocket/websocket-upgrade.ts'

export interface OwnSocketsComponents {
  readonly metrics: Pick<KubernetesMetrics, 'failed'>
  readonly clock: Clock
  readonly log: Logger
}

export interface OwnSocketsOptions {
  /** `gitlab-kas/<version>/<commit>` */
  readonly product: string
  readonly limits: KubernetesLimits
}

/** Opens WebSockets of one of kas' own endpoints. */
export class OwnSockets {
  /** name of the counted sockets, for refusals */
  readonly what: string
  readonly beginsByMessage: boolean
  readonly #upgrade: OwnUpgrade
  readonly #components: OwnSocketsComponents
  readonly #options: OwnSocketsOptions
  readonly #webSockets: WebSocketUpgrade

  constructor(upgrade: OwnUpgrade, components: OwnSocketsComponents, options: OwnSocketsOptions) {
    this.what = upgrade.what
    this.beginsByMessage = upgrade.beginsByMessage ?? false
    this.#upgrade = upgrade
    this.#components = components
    this.#options = options
    const { protocol, maxMessageBytes } = upgrade
    const { product, limits } = options
    this.#webSockets = new WebSocketUpgrade({ protocol, product, maxMessageBytes, closeMs: limits.watchCloseMs })
  }

  /**
   * Opens the WebSocket that a request asks for.
   *
   * @throws KasError UPGRADE_REQUIRED, BAD_REQUEST; nothing has been answered then
   */
  accept(exchange: Exchange, { header }: RequestHead, caller: OwnCaller): OwnWebSocket {
    const webSocket = this.#webSockets.accept(exchange, header)
    const { clock, metrics, log } = this.#components
    const socket = new ClientSocket(webSocket, clock, this.#options.limits, exchange.memory)
    const failed: OpenedSocket['failed'] = (error, sentence) => {
      metrics.failed(error.code)
      if (error.code === 'INTERNAL') log.error({ error }, sentence)
      else log.debug({ error_code: error.code, ...limitField(error) }, sentence)
    }
    const opened = new OwnWebSocket(socket, failed, () => this.#upgrade.open({ ...caller, socket, failed }))
    webSocket.on('message', (data, isBinary) => opened.message(data as Buffer, isBinary))
    return opened
  }
}

/** An open WebSocket. An error of its conversation ends this socket, and nothing else. */
export class OwnWebSocket {
  readonly #socket: ClientSocket
  readonly #failed: OpenedSocket['failed']
  /** undefined: it failed to begin */
  #conversation: OwnConversation | undefined

  constructor(socket: ClientSocket, failed: OpenedSocket['failed'], open: () => OwnConversation) {
    this.#socket = socket
    this.#failed = failed
    this.#guarded(() => {
      this.#conversation = open()
    })
  }

  message(data: Buffer, isBinary: boolean): void {
    if (!this.#socket.isOpen) return // the message was under way when the socket was closed
    this.#guarded(() => this.#conversation?.message(data, isBinary))
  }

  /** Notifies the conversation of the caller's new identity in the cluster; undefined: a change ends the socket. */
  get changed(): ((impersonation: Impersonation | undefined) => void) | undefined {
    if (!this.#conversation?.changed) return undefined
    return (impersonation) => this.#guarded(() => this.#conversation?.changed?.(impersonation))
  }

  /** Ends the socket because the caller lost access or makes room, whatever the conversation does. */
  withdraw(reason: KasError): void {
    this.#guarded(() => this.#conversation?.withdraw(reason))
    if (this.#socket.isOpen) this.#socket.close(endCode(reason), reason.message)
  }

  /** Ends the socket: its caller has most sockets, and another caller needs the place. */
  makeRoom(reason: KasError): void {
    this.#failed(reason, 'A WebSocket has made room for another caller')
    this.withdraw(reason)
  }

  /** Resolves when the socket is closed; `signal` closes it. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#socket.untilClosed(signal)
    this.#guarded(() => this.#conversation?.closed())
  }

  #guarded(action: () => unknown): void {
    guarded(action, (cause) => {
      const error = KasError.from(cause)
      this.#failed(error, 'A WebSocket failed')
      this.#socket.close(closeCodes.internalError, error.message)
    })
  }
}
