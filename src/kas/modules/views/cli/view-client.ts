import { WebSocket } from 'ws'
import { Backoff } from '../../../../lib/backoff.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { printable } from '../../../../lib/printable.ts'
import { type Query, type Row, type Update, viewsBounds, viewsProtocol } from '../../../../proto/views-json.ts'
import { type Endpoint, urlBelow } from '../../../command/endpoint.ts'
import { answerFault, type FaultyAnswer, statusMessage } from '../../../command/reach/answer-fault.ts'
import { callerText } from '../../../command/reach/caller-text.ts'
import { connectionFault } from '../../../command/reach/connection-fault.ts'
import { placeText, type Unreached } from '../../../command/reach/unreached.ts'
import { readMessage } from './received.ts'
import { byOnset, childrenLimit, ShownView } from './shown-view.ts'
import { ViewWait } from './view-wait.ts'

/** Period of pings in ms; kas answers each one while the socket is alive. */
const pingMs = 15_000
/** Time for TCP, TLS and the WebSocket, in ms. */
const dialMs = 15_000
/** Bytes of an update and its envelope. */
const maxMessageBytes = 1024 * 1024
/** RFC 6455, 7.4.1: kas accepts no message of this size. */
const messageTooBig = 1009
/** Id of the only view on the socket. */
const viewId = 1
/** Pauses before a lost connection to kas is opened again. ms */
const backoffOptions = { firstMs: 200, maxMs: 5000, factor: 2, jitter: 0.2, resetMs: 30_000 }

/** The view is refused: a repetition has the same result. */
export class ViewRefused extends Error {
  override readonly name = 'ViewRefused'
  readonly code: string

  constructor(code: string, text: string) {
    super(printable(text === '' ? code : `${text} (${code})`))
    this.code = code
  }
}

const tooLargeText = `the query has more than ${viewsBounds.maxQueryBytes} bytes: ask for fewer objects at once`

/** Codes that end by themselves: a replica stops, an agent reconnects, another pod of it leads. */
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

/** Word in the text of agentk while views are off. A version without views has another text. */
const viewsFile = 'views.yaml'

/** @returns the reason for which the view has ended, if it is opened again. @throws ViewRefused */
function passingText({ code, text }: { code: string; text: string }, { agentId }: Endpoint): string {
  if (passing.has(code)) return printable(text)
  if (code !== 'VIEWS_NOT_SERVED' || !text.includes(viewsFile)) throw new ViewRefused(code, text)
  return printable(
    `views of agent ${agentId} are off: ${text}. One with {} turns them on, and rbac.views.enabled of the chart lets agentk list`,
  )
}

export interface ViewOptions {
  readonly query: Query
  /** returns true if the children of a row are shown, too */
  readonly opens: (row: Row) => boolean
  /** pages that are requested from the start, as a whole, instead of children */
  readonly nodes?: readonly string[] | undefined
  /** @param isWhole - all requested rows are there. @returns true: enough. An error that it throws ends the view */
  readonly onChange: (shown: ShownView, isWhole: boolean) => boolean
  /** called when the connection was lost and is opened again: the shown view may be old */
  readonly onLost?: (reason: string) => void
  /** called with each reason for which there is no whole answer yet, once. Default: written to stderr */
  readonly onWait?: (reason: string) => void
}

export interface ViewClientComponents {
  readonly clock: Clock
  readonly random: () => number
}

/** One view, with the children of its rows, over a WebSocket of its own that is opened again after each loss. */
export class ViewClient {
  readonly #components: ViewClientComponents
  readonly #endpoint: Endpoint
  readonly #options: ViewOptions
  readonly #shown = new ShownView()
  #socket: WebSocket | undefined
  readonly #wait: ViewWait
  /** kas was reached: from now on a lost connection is opened again */
  #wasReached = false
  /** nodes whose children are requested, with the limit of each */
  readonly #pages = new Map<string, number>()

  constructor(components: ViewClientComponents, endpoint: Endpoint, options: ViewOptions) {
    this.#components = components
    this.#endpoint = endpoint
    this.#options = options
    this.#wait = new ViewWait(endpoint, options.onWait ?? endpoint.warn)
    // the agent lists the worst first then: only unhealthy objects have a cause
    if (options.query.sort === 'since') this.#shown.arrange = byOnset
    this.#showChildren(options.nodes ?? [], viewsBounds.maxLimit)
  }

  /**
   * Follows the view until `onChange` returns true, or the signal aborts.
   *
   * @throws Unreached, ViewRefused, BadAnswer, and errors of `onChange`
   */
  async run(signal: AbortSignal): Promise<void> {
    this.#wait.start()
    try {
      await this.#run(signal)
    } finally {
      this.#wait.end()
    }
  }

  async #run(signal: AbortSignal): Promise<void> {
    const backoff = new Backoff(this.#components, backoffOptions)
    const enough = new AbortController()
    const ended = AbortSignal.any([signal, enough.signal])
    while (!ended.aborted) {
      const lost = await this.#follow(() => enough.abort(), ended)
      if (ended.aborted) return
      this.#options.onLost?.(lost)
      this.#wait.lost(lost)
      await backoff.wait(ended)
    }
  }

  #updated(update: Update, onEnough: () => void): void {
    const { opens, nodes, onChange } = this.#options
    const shown = this.#shown
    shown.apply(update)
    shown.ahead = update.at - this.#components.clock.now()
    const wanted = nodes ?? shown.pagesToAsk(opens)
    if (!nodes) this.#showChildren(wanted, childrenLimit)
    const isThere = (node: string) => shown.pages.has(node) || (nodes !== undefined && shown.refused.has(node))
    // rows come before their page, often in several updates
    const isWhole = shown.state.is !== 'syncing' && shown.pages.has('') && wanted.every(isThere)
    this.#wait.updated(shown, isWhole)
    if (onChange(shown, isWhole)) onEnough()
  }

  /** Requests the children of exactly these nodes, also of one that is removed for now: it may come back. */
  #showChildren(wanted: readonly string[], limit: number): void {
    const nodes = new Set(wanted)
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
   * @returns the reason for which the socket has ended.
   *
   * @throws Unreached, ViewRefused, BadAnswer, and errors of `onChange`
   */
  async #follow(onEnough: () => void, signal: AbortSignal): Promise<string> {
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    let socket: WebSocket
    try {
      socket = this.#dial()
    } catch (error) {
      return this.#lostBy(await connectionFault(error as Error, this.#endpoint)) // the CA file cannot be read
    }
    const stopPings = this.#pings(socket)
    const cancelDial = this.#components.clock.after(dialMs, () => {
      if (socket.readyState !== WebSocket.CONNECTING) return
      resolve(`no answer from ${placeText(this.#endpoint)} within ${dialMs / 1000} s`)
      socket.terminate()
    })
    const onAbort = () => socket.terminate()
    signal.addEventListener('abort', onAbort, { once: true })
    socket.on('open', () => {
      this.#socket = socket
      this.#wasReached = true
      this.#send({ type: 'open', id: viewId, agent: this.#endpoint.agentId, fresh: true, ...this.#options.query })
      for (const [node, limit] of this.#pages) this.#send({ type: 'page', id: viewId, node, limit })
    })
    socket.on('message', (data) => {
      try {
        const message = readMessage(String(data))
        if (message.type === 'update') return this.#updated(message.update, onEnough)
        resolve(passingText(message, this.#endpoint))
      } catch (error) {
        reject(error)
      }
      socket.terminate() // later messages are dropped
      socket.removeAllListeners('message')
    })
    socket.on('unexpected-response', (request, response) => {
      let body = ''
      response.on('data', (chunk) => {
        if (body.length < maxMessageBytes) body += chunk
      })
      response.on('close', () => {
        const { statusCode: status = 0, headers } = response
        this.#refusedBy({ status, headers, body }).then(resolve, reject)
        request.destroy()
      })
    })
    socket.on('error', (error) => {
      connectionFault(error, this.#endpoint)
        .then((fault) => this.#lostBy(fault))
        .then(resolve, reject)
    })
    socket.on('close', (code, reason) => {
      if (code === messageTooBig) reject(new ViewRefused('MESSAGE_TOO_LARGE', tooLargeText))
      if (this.#socket !== socket) return // it was never open: its error has the reason
      resolve(reason.length > 0 ? String(reason) : `the WebSocket ended with ${code}`)
    })
    return promise.finally(() => {
      signal.removeEventListener('abort', onAbort)
      stopPings()
      cancelDial()
      this.#socket = undefined
      socket.terminate()
    })
  }

  #dial(): WebSocket {
    const { authorization, tls } = this.#endpoint
    return new WebSocket(urlBelow(this.#endpoint, '/views'), viewsProtocol, {
      headers: { Authorization: authorization },
      maxPayload: maxMessageBytes,
      perMessageDeflate: false,
      ...tls,
    })
  }

  /** @returns the text of a fault after which the view is opened again. @throws the fault, if that is useless */
  #lostBy(fault: Unreached): string {
    if (fault.isPassing || (this.#wasReached && fault.kind !== 'caller')) return fault.message
    throw fault
  }

  /** @returns the reason for which there is no WebSocket, if it is opened again. @throws Unreached, ViewRefused */
  async #refusedBy(answer: FaultyAnswer): Promise<string> {
    const fault = answerFault(answer, this.#endpoint)
    if (fault) return this.#lostBy(await callerText(this.#endpoint, fault))
    const { status, body } = answer
    const text = statusMessage(body) ?? `HTTP ${status}`
    if (status >= 500 || status === 429) return text
    throw new ViewRefused(`HTTP ${status}`, text)
  }

  /** Ends a socket that does not answer a ping: it is dead, even if the network reports nothing. */
  #pings(socket: WebSocket): () => void {
    let isAlive = true
    let cancel = () => {}
    const check = () => {
      if (!isAlive) return socket.terminate()
      isAlive = false
      if (socket.readyState === WebSocket.OPEN) socket.ping()
      cancel = this.#components.clock.after(pingMs, check)
    }
    const answered = () => {
      isAlive = true
    }
    socket.on('pong', answered)
    socket.on('message', answered)
    cancel = this.#components.clock.after(pingMs, check)
    return () => cancel()
  }

  #send(message: object): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message))
  }
}
