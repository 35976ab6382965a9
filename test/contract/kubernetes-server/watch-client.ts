import { once } from 'node:events'
import type { Test } from 'tap'
import { WebSocket } from 'ws'

export const watchProtocol = 'gitlab-agent-watch-api'
export const tokenProtocol = (token: string) => `websocket-token.kas.gitlab.com.${token}`

interface OpenOptions {
  readonly path?: string
  readonly protocols?: readonly string[]
  readonly headers?: Readonly<Record<string, string>>
  readonly autoPong?: boolean
}

export interface WatchSaid {
  type: string
  watchId: string
  watchEvent?: { type: string; object: { metadata: { name: string } } }
  error?: { message: string; object: { kind?: string; message: string; code?: number } }
}

/** The WebSocket of a page. */
export class WatchClient {
  readonly socket: WebSocket
  readonly closed: Promise<{ code: number; reason: string }>
  readonly #said: WatchSaid[] = []
  #changed: (() => void) | undefined

  constructor(socket: WebSocket) {
    this.socket = socket
    socket.on('message', (text) => {
      this.#said.push(JSON.parse(String(text)))
      this.#changed?.()
    })
    this.closed = once(socket, 'close').then(([code, reason]) => ({ code, reason: String(reason) }))
    this.closed.then(
      () => this.#changed?.(),
      () => undefined,
    )
  }

  /** @throws Error with the status code of a refusal */
  static async open(t: Test, port: number, options: OpenOptions = {}): Promise<WatchClient> {
    const { path = '/k8s-proxy/watch', protocols = [watchProtocol], headers = {}, autoPong = true } = options
    const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, [...protocols], { headers: { ...headers }, autoPong })
    t.teardown(() => socket.terminate())
    const client = new WatchClient(socket)
    await once(socket, 'open')
    return client
  }

  send(message: unknown): this {
    this.socket.send(JSON.stringify(message))
    return this
  }

  watch(watchId: string, params: Record<string, unknown> = {}): this {
    return this.send({
      type: 'watch',
      watch_id: watchId,
      watch_params: { version: 'v1', resource: 'pods', ...params },
    })
  }

  /** Returns the next message. @throws Error if the WebSocket closes before */
  async next(): Promise<WatchSaid> {
    for (;;) {
      const said = this.#said.shift()
      if (said) return said
      if (this.socket.readyState === WebSocket.CLOSED) throw new Error('closed before a message came')
      await new Promise<void>((resolve) => {
        this.#changed = resolve
      })
    }
  }

  /** Returns the watch id and the name of the next event's object. */
  async nextName(): Promise<string> {
    const { watchId, watchEvent } = await this.next()
    return `${watchId}: ${watchEvent?.object.metadata.name}`
  }
}
