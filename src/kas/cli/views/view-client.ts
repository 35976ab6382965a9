import { WebSocket } from 'ws'
import { Backoff } from '../../../lib/backoff.ts'
import type { Clock } from '../../../lib/clock.ts'
import { printable } from '../../../lib/printable.ts'
import { type Query, type Update, viewsProtocol } from '../../../proto/views-json.ts'
import type { Endpoint } from './endpoint.ts'
import { readMessage } from './received.ts'

/** kas answers a ping of a socket that is alive. ms */
const pingMs = 15_000
/** Time for TCP, TLS and the WebSocket. ms */
const dialMs = 15_000
/** An update and its envelope. */
const maxMessageBytes = 1024 * 1024
/** Characters of a `Status` that are shown. */
const maxStatusText = 1000
/** Of one view at a time. */
const viewId = 1
const backoffOptions = { firstMs: 200, maxMs: 5000, factor: 2, jitter: 0.2, resetMs: 30_000 }

/** The view is refused: to ask again is of no use. */
export class ViewRefused extends Error {
  override readonly name = 'ViewRefused'
  readonly code: string

  constructor(code: string, text: string) {
    super(printable(text === '' ? code : `${text} (${code})`))
    this.code = code
  }
}

/** These pass by themselves: a replica ends, an agent connects again, another pod of it leads. */
const passing: ReadonlySet<string> = new Set([
  'AGENT_NOT_CONNECTED',
  'AGENT_SATURATED',
  'DIRECTORY_UNAVAILABLE',
  'HOLDER_UNREACHABLE',
  'SHUTTING_DOWN',
  'TUNNEL_LOST',
  'UNREACHABLE',
  'VIEWS_NOT_LED',
])

export interface ViewClientComponents {
  /** what it throws ends the view */
  readonly onUpdate: (update: Update) => void
  /** the connection was lost, and is made again: what is shown may be old */
  readonly onLost: (why: string) => void
  readonly clock: Clock
  readonly random: () => number
}

/** One view over a WebSocket of its own, opened again whenever that is lost. */
export class ViewClient {
  readonly #components: ViewClientComponents
  readonly #endpoint: Endpoint
  #socket: WebSocket | undefined
  /** nodes whose children are asked for, with how many */
  readonly #pages = new Map<string, number>()

  constructor(components: ViewClientComponents, endpoint: Endpoint) {
    this.#components = components
    this.#endpoint = endpoint
  }

  /** Asks for the children of these nodes, and of no others: one that is gone may come back. */
  showChildren(nodes: ReadonlySet<string>, limit: number): void {
    const ask = (node: string, of: number) => this.#send({ type: 'page', id: viewId, node, limit: of })
    for (const node of this.#pages.keys()) {
      if (!nodes.has(node) && this.#pages.delete(node)) ask(node, 0)
    }
    for (const node of nodes) {
      if (this.#pages.get(node) === limit) continue
      this.#pages.set(node, limit)
      ask(node, limit)
    }
  }

  /**
   * Until the signal aborts.
   *
   * @throws ViewRefused, BadAnswer
   */
  async run(query: Query, signal: AbortSignal): Promise<void> {
    const backoff = new Backoff(this.#components, backoffOptions)
    while (!signal.aborted) {
      const why = await this.#follow(query, signal)
      if (signal.aborted) return
      this.#components.onLost(why)
      await backoff.wait(signal)
    }
  }

  /** @returns why the socket has ended. @throws ViewRefused, BadAnswer, and what `onUpdate` throws */
  #follow(query: Query, signal: AbortSignal): Promise<string> {
    const { url, authorization, tls } = this.#endpoint
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    const socket = new WebSocket(url, viewsProtocol, {
      headers: { Authorization: authorization },
      handshakeTimeout: dialMs,
      maxPayload: maxMessageBytes,
      perMessageDeflate: false,
      ...tls,
    })
    const stopPings = this.#pings(socket)
    const onAbort = () => socket.terminate()
    signal.addEventListener('abort', onAbort, { once: true })
    socket.on('open', () => {
      this.#socket = socket
      this.#send({ type: 'open', id: viewId, agent: this.#endpoint.agentId, ...query })
      for (const [node, limit] of this.#pages) this.#send({ type: 'page', id: viewId, node, limit })
    })
    socket.on('message', (data) => {
      try {
        const message = readMessage(String(data))
        if (message.type === 'update') return this.#components.onUpdate(message.update)
        if (!passing.has(message.code)) throw new ViewRefused(message.code, message.text)
        resolve(message.text)
      } catch (error) {
        reject(error)
      }
      socket.terminate() // and what it has sent beside
      socket.removeAllListeners('message')
    })
    socket.on('unexpected-response', (request, response) => {
      let text = ''
      response.on('data', (chunk) => {
        if (text.length < maxMessageBytes) text += chunk
      })
      response.on('close', () => {
        const status = response.statusCode ?? 0
        if (status >= 500 || status === 429) resolve(answerText(status, text))
        else reject(new ViewRefused(`HTTP ${status}`, answerText(status, text)))
        request.destroy()
      })
    })
    socket.on('error', (error) => resolve(error.message))
    socket.on('close', (code, reason) =>
      resolve(reason.length > 0 ? String(reason) : `the WebSocket ended with ${code}`),
    )
    return promise.finally(() => {
      signal.removeEventListener('abort', onAbort)
      stopPings()
      this.#socket = undefined
      socket.terminate()
    })
  }

  /** One that does not answer is dead, whatever the network says. */
  #pings(socket: WebSocket): () => void {
    let isAlive = true
    let cancel = () => {}
    const look = () => {
      if (!isAlive) return socket.terminate()
      isAlive = false
      if (socket.readyState === WebSocket.OPEN) socket.ping()
      cancel = this.#components.clock.after(pingMs, look)
    }
    const heard = () => {
      isAlive = true
    }
    socket.on('pong', heard)
    socket.on('message', heard)
    cancel = this.#components.clock.after(pingMs, look)
    return () => cancel()
  }

  #send(message: object): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message))
  }
}

/** What kas answers with is a Status of Kubernetes, what stands in front of it may answer with anything. */
function answerText(status: number, text: string): string {
  try {
    const { message } = JSON.parse(text) as { message?: unknown }
    if (typeof message === 'string') return message.slice(0, maxStatusText)
  } catch {
    // no JSON: it is not from kas
  }
  return `HTTP ${status}`
}
