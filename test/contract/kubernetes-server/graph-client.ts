import { once } from 'node:events'
import type { Test } from 'tap'
import { WebSocket } from 'ws'
import { StrictGraph } from '../../support/graph/strict-graph.ts'

export const graphProtocol = 'gitlab-agent-graph-api'

interface OpenOptions {
  readonly path?: string
  readonly protocols?: readonly string[]
  readonly headers?: Readonly<Record<string, string>>
}

/** A client like GitLab's. It sends one request, then reads, and ends when it cannot draw an update. */
export class GraphClient {
  readonly socket: WebSocket
  readonly graph = new StrictGraph()
  readonly closed: Promise<{ code: number; reason: string }>
  readonly texts: string[] = []
  /** error with which the client itself ended */
  failure: Error | undefined

  constructor(socket: WebSocket) {
    this.socket = socket
    socket.on('message', (data, isBinary) => this.#take(String(data), isBinary))
    this.closed = new Promise((resolve) => {
      socket.once('close', (code, reason) => resolve({ code, reason: String(reason) }))
    })
    socket.on('error', () => undefined) // 'close' reports it
  }

  /** @throws Error with the status code of a refusal */
  static async open(t: Test, port: number, options: OpenOptions = {}): Promise<GraphClient> {
    const { path = '/k8s-proxy/graph', protocols = [graphProtocol], headers = {} } = options
    const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, [...protocols], {
      headers: { ...headers },
      perMessageDeflate: false,
    })
    t.teardown(() => socket.terminate())
    const client = new GraphClient(socket)
    await once(socket, 'open')
    return client
  }

  ask(request: object): this {
    this.socket.send(JSON.stringify(request))
    return this
  }

  #take(text: string, isBinary: boolean): void {
    this.texts.push(text)
    try {
      if (isBinary) throw new Error('unexpected message type')
      this.graph.take(text)
    } catch (error) {
      this.failure ??= error as Error
      this.socket.terminate()
    }
  }
}
