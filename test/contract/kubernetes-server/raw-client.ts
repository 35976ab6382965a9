import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

/** A client that writes raw text and keeps received bytes as latin1. */
export class RawClient {
  readonly socket: Socket
  text = ''
  /** end of the connection: `end` or an error code; undefined: it is open */
  ended: string | undefined
  #changed: (() => void) | undefined

  constructor(socket: Socket) {
    this.socket = socket
    socket.on('data', (chunk: Buffer) => {
      this.text += chunk.toString('latin1')
      this.#changed?.()
    })
    socket.on('error', (error: NodeJS.ErrnoException) => this.#end(error.code ?? error.message))
    socket.on('end', () => this.#end('end'))
    socket.on('close', () => this.#end('close'))
  }

  static async open(port: number, localAddress?: string): Promise<RawClient> {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true, ...(localAddress && { localAddress }) })
    await once(socket, 'connect')
    return new RawClient(socket)
  }

  write(text: string): this {
    this.socket.write(Buffer.from(text, 'latin1'))
    return this
  }

  /** Writes a request with these headers. */
  request(line: string, ...headers: string[]): this {
    return this.write(`${[`${line} HTTP/1.1`, 'Host: kas', ...headers].join('\r\n')}\r\n\r\n`)
  }

  /** Waits until `pattern` matches. @throws Error if the connection ends before */
  async until(pattern: RegExp): Promise<string> {
    while (!pattern.test(this.text)) {
      if (this.ended) throw new Error(`${this.ended} before ${pattern}: ${JSON.stringify(this.text)}`)
      await this.#change()
    }
    return this.text
  }

  /** Returns all received text after the connection has ended. */
  async toEnd(): Promise<string> {
    while (!this.ended) await this.#change()
    return this.text
  }

  close(): void {
    this.socket.destroy()
  }

  #end(how: string): void {
    this.ended ??= how
    this.#changed?.()
  }

  async #change(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#changed = resolve
    await promise
  }
}
