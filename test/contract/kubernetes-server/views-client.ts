import { once } from 'node:events'
import type { Test } from 'tap'
import { WebSocket } from 'ws'

export const viewsProtocol = 'kas-views-v1'

export interface ViewsSaid {
  readonly type: string
  readonly id: number
  readonly update?: { readonly seq: number; readonly [key: string]: unknown }
  readonly code?: string
  readonly text?: string
}

interface OpenOptions {
  readonly path?: string
  readonly protocols?: readonly string[]
  readonly headers?: Readonly<Record<string, string>>
}

/** A viewer that opens views over a WebSocket. */
export class ViewsClient {
  readonly socket: WebSocket
  readonly closed: Promise<{ code: number; reason: string }>
  readonly #said: ViewsSaid[] = []
  #changed: (() => void) | undefined

  constructor(socket: WebSocket) {
    this.socket = socket
    socket.on('message', (text) => {
      this.#said.push(JSON.parse(String(text)))
      this.#changed?.()
    })
    this.closed = new Promise((resolve) => {
      socket.once('close', (code, reason) => {
        resolve({ code, reason: String(reason) })
        this.#changed?.()
      })
    })
    socket.on('error', () => undefined) // 'close' reports it
  }

  /** @throws Error with the status code of a refusal */
  static async open(t: Test, port: number, options: OpenOptions = {}): Promise<ViewsClient> {
    const { path = '/k8s-proxy/views', protocols = [viewsProtocol], headers = {} } = options
    const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, [...protocols], { headers: { ...headers } })
    t.teardown(() => socket.terminate())
    const client = new ViewsClient(socket)
    await once(socket, 'open')
    return client
  }

  send(message: unknown): this {
    this.socket.send(JSON.stringify(message))
    return this
  }

  view(id: number, more: Record<string, unknown> = {}): this {
    return this.send({ type: 'open', id, agent: '42', view: 'tree', ...more })
  }

  /** Returns the next message. @throws Error if the WebSocket closes before */
  async next(): Promise<ViewsSaid> {
    for (;;) {
      const said = this.#said.shift()
      if (said) return said
      if (this.socket.readyState === WebSocket.CLOSED) throw new Error('closed before a message came')
      await new Promise<void>((resolve) => {
        this.#changed = resolve
      })
    }
  }

  /** Returns the id and the number of the next update. */
  async nextSeq(): Promise<string> {
    const { id, update, code } = await this.next()
    return `${id}: ${update?.seq ?? code}`
  }
}
