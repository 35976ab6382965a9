import { type WebSocket, WebSocketServer } from 'ws'
import { KasError } from '../../../../lib/errors.ts'
import type { Headers } from '../../../../proto/http/http-message.ts'
import type { Exchange } from '../http/exchange.ts'

export interface WebSocketUpgradeOptions {
  /** the sub-protocol of the WebSocket */
  readonly protocol: string
  /** `gitlab-kas/<version>/<commit>` */
  readonly product: string
  /** bytes of one message of the client */
  readonly maxMessageBytes: number
  /** time for a client to close after kas did. ms */
  readonly closeMs: number
}

/** Parts of an incomplete message: ws keeps about 400 B for each fragment and each piece, beside its bytes. */
const maxMessageParts = 1024

/** Opens WebSockets from upgrade requests. */
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
      autoPong: false, // ws would answer endless pings of a client that does not read
      closeTimeout: closeMs, // newer than the types
      handleProtocols: () => protocol,
    }
    this.#protocol = protocol
    this.#webSockets = new WebSocketServer(settings)
    this.#webSockets.on('headers', (headers) => headers.push(`Server: ${product}`))
    // without a listener, ws would write an answer of its own
    this.#webSockets.on('wsClientError', (error) => {
      throw new KasError({ code: 'BAD_REQUEST', detail: error.message }, { cause: error })
    })
  }

  /**
   * Opens the WebSocket that a request asks for.
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
      const [webSocket] = opened // ws calls back at once, or not at all
      if (!webSocket) throw new KasError({ code: 'CANCELLED' }) // the client has left
      return webSocket
    })
  }
}
