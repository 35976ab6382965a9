import { request } from 'node:https'
import { buffer } from 'node:stream/consumers'
import { WebSocket } from 'ws'

/** A way to an API server: directly, or through kas. */
export interface Way {
  readonly name: string
  /** URL, with the path before `/api` */
  readonly url: string
  readonly ca: string
  readonly token: string
}

export interface Answered {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string
}

/** Go's WebSocket client, and those of Python and Java, send it by themselves. */
const origin = 'http://localhost'

/** Makes a request without following redirects. */
export function ask({ url, ca, token }: Way, method: string, path: string, more = {}): Promise<Answered> {
  const { promise, resolve, reject } = Promise.withResolvers<Answered>()
  const headers = { Authorization: `Bearer ${token}`, ...more }
  request(url + path, { method, ca, headers }, (response) => {
    const { statusCode: status = 0, headers } = response
    buffer(response).then((body) => resolve({ status, headers, body: body.toString() }), reject)
  })
    .on('error', reject)
    .end()
  return promise
}

/** @param by - form of the token: a header, or that of browsers */
export function openWebSocket(
  way: Way,
  path: string,
  protocol: string,
  by: 'header' | 'protocol' = 'header',
): OpenedWay {
  const { url, ca, token } = way
  const shown = `base64url.bearer.authorization.k8s.io.${Buffer.from(token).toString('base64url')}`
  const protocols = by === 'header' ? [protocol] : [protocol, shown]
  const headers = by === 'header' ? { Authorization: `Bearer ${token}` } : {}
  return new OpenedWay(new WebSocket(url.replace(/^http/, 'ws') + path, protocols, { ca, origin, headers }))
}

/** A WebSocket, and its bytes by channel, which is the first byte of each message. */
export class OpenedWay {
  readonly socket: WebSocket
  readonly #channels = new Map<number, Buffer>()
  /** reason of its end; undefined: it is open */
  #ended: string | undefined
  #changed: (() => void) | undefined

  constructor(socket: WebSocket) {
    this.socket = socket
    socket.on('message', (message: Buffer) => {
      const [channel = -1] = message
      this.#channels.set(channel, Buffer.concat([this.read(channel), message.subarray(1)]))
      this.#changed?.()
    })
    socket.on('error', ({ message }) => this.#end(message))
    socket.on('close', (code) => this.#end(`closed with ${code}`))
  }

  read(channel: number): Buffer {
    return this.#channels.get(channel) ?? Buffer.alloc(0)
  }

  send(channel: number, text: string): void {
    this.socket.send(Buffer.concat([Buffer.of(channel), Buffer.from(text)]))
  }

  /** Resolves once `isThere`. @throws Error if it ends before */
  async until(isThere: (channel: (number: number) => string) => boolean): Promise<void> {
    while (!isThere((channel) => this.read(channel).toString())) {
      if (this.#ended !== undefined) throw new Error(`${this.#ended}: ${JSON.stringify([...this.#channels])}`)
      await new Promise<void>((resolve) => {
        this.#changed = resolve
      })
    }
  }

  close(): void {
    this.socket.terminate()
  }

  #end(how: string): void {
    this.#ended ??= how
    this.#changed?.()
  }
}
