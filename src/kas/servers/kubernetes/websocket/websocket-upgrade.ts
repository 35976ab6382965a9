import { type WebSocket, WebSocketServer } from 'ws'
import { KasError } from '../../../../lib/errors.ts'
import type { Headers } from '../../../../proto/http/http-message.ts'
import type { Exchange } from '../http/exchange.ts'

export interface WebSocketUpgradeOptions {
  /** the sub-protocol that is spoken */
  readonly protocol: string
  /** `gitlab-kas/<version>/<commit>` */
  readonly product: string
  /** bytes of one message of the client */
  readonly maxMessageBytes: number
  /** for a client to close once it was asked to, in ms */
  readonly closeMs: number
}

/** Of a message that is not whole, ws keeps some 400 B for each fragment and each piece that was read, beside its bytes. */
const maxMessageParts = 1024

/** Makes WebSockets of requests to upgrade. */
export class WebSocketUpgrade {
  readonly #protocol: string
  readonly #webSockets: WebSocketServer

  constructor({ protocol, product, maxMessageBytes, closeMs }: WebSocketUpgradeOptions) {
    const settings = {
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload: maxMessageBytes,
      maxFragments: maxMessageParts,
      maxBufferedChunks: maxMessageParts,
      autoPong: false, // it answers pings without end to a client that does not read
      closeTimeout: closeMs, // newer than the types
      handleProtocols: () => protocol,
    }
    this.#protocol = protocol
    this.#webSockets = new WebSocketServer(settings)
    this.#webSockets.on('headers', (headers) => headers.push(`Server: ${product}`))
    // without a listener it would write an answer of its own
    this.#webSockets.on('wsClientError', (error) => {
      throw new KasError({ code: 'BAD_REQUEST', detail: error.message }, { cause: error })
    })
  }

  /**
   * Opens the WebSocket that was asked for.
   *
   * @throws KasError UPGRADE_REQUIRED, BAD_REQUEST; nothing has been answered then
   */
  accept(exchange: Exchange, header: Headers): WebSocket {
    const { request, upgrade } = exchange
    const offered = header.flatMap(([name, values]) => (name === 'Sec-Websocket-Protocol' ? values : []))
    const isOffered = offered.some((value) => value.split(',').some((one) => one.trim() === this.#protocol))
    if (request.headers.upgrade?.toLowerCase() !== 'websocket' || !upgrade || !isOffered) {
      throw new KasError({ code: 'UPGRADE_REQUIRED', protocol: this.#protocol })
    }
    return exchange.acceptWebSocket(upgrade, (socket, head) => {
      const opened: WebSocket[] = []
      this.#webSockets.handleUpgrade(request, socket, head, (webSocket) => opened.push(webSocket))
      const [webSocket] = opened // at once, or not at all
      if (!webSocket) throw new KasError({ code: 'CANCELLED' }) // the client has left meanwhile
      return webSocket
    })
  }
}
