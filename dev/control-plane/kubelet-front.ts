import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, request, type Server } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { connect, type TLSSocket } from 'node:tls'
import type { Service } from '../../src/lib/service.ts'
import type { Pem } from '../certificates.ts'

export interface KubeletFrontOptions {
  /** certificate and key of both servers, this one and the kubelet behind it */
  readonly serving: Pem
  /** PEM of the authority that signed `serving` and the client's certificate */
  readonly ca: string
  /** common name of the one client: the API server */
  readonly client: string
  /** port of the kubelet behind it, on loopback */
  readonly kubeletPort: number
  /** the only container for which the kubelet behind it has rules */
  readonly container: string
}

/** `/exec/NAMESPACE/POD[/UID]/CONTAINER`, and other paths that name a container */
const containerPath = /^(\/(?:exec|attach|containerLogs)(?:\/[^/?]+){2,3}\/)[^/?]+(?=\?|$)/

/**
 * The port that the Node names as its kubelet's. The simulated kubelet authenticates nobody, so this front does. It
 * accepts the API server by its client certificate, and replaces the container of its calls by the kubelet's.
 */
export class KubeletFront implements Service {
  readonly #options: KubeletFrontOptions
  readonly #server: Server
  readonly #sockets = new Set<Socket>()

  constructor(options: KubeletFrontOptions) {
    this.#options = options
    const { serving, ca } = options
    const keys = { cert: serving.certificate, key: serving.key, ca, requestCert: true, rejectUnauthorized: true }
    this.#server = createServer({ ...keys, ALPNProtocols: ['http/1.1'], requestTimeout: 0, noDelay: true })
    this.#server.on('secureConnection', (socket) => this.#adopt(socket))
    this.#server.on('request', (incoming, response) => this.#call(incoming, response))
    this.#server.on('upgrade', (incoming, socket, head) => this.#upgrade(incoming, socket as Socket, head))
  }

  /** port of loopback, once started */
  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  async start(): Promise<void> {
    await once(this.#server.listen(0, '127.0.0.1'), 'listening')
  }

  /** Cuts all connections. */
  async stop(): Promise<void> {
    if (!this.#server.listening) return
    const closed = once(this.#server, 'close')
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  /** Serves logs, and refusals. */
  #call(incoming: IncomingMessage, response: ServerResponse): void {
    const { kubeletPort: port, ca } = this.#options
    const { method, rawHeaders: headers } = incoming
    if (!this.#isClient(incoming)) return void response.writeHead(403).end()
    const outgoing = request({ host: '127.0.0.1', port, ca, agent: false, method, path: this.#path(incoming), headers })
    outgoing.once('response', (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.rawHeaders)
      response.flushHeaders() // the log's lines come later
      answer.pipe(response)
      answer.once('error', () => response.destroy())
    })
    outgoing.once('error', () => (response.headersSent ? response.destroy() : response.writeHead(502).end()))
    response.once('close', () => outgoing.destroy())
    incoming.pipe(outgoing)
  }

  /** Passes on all bytes after the first line unchanged, also the end of a body that SPDY has before its frames. */
  #upgrade(incoming: IncomingMessage, client: Socket, head: Buffer): void {
    if (!this.#isClient(incoming)) return void client.destroy()
    const kubelet = connect({ host: '127.0.0.1', port: this.#options.kubeletPort, ca: this.#options.ca })
    this.#adopt(kubelet)
    const { method, rawHeaders } = incoming
    const fields = rawHeaders.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${rawHeaders[i + 1]}`] : []))
    kubelet.write([`${method} ${this.#path(incoming)} HTTP/1.1`, ...fields, '', ''].join('\r\n'), 'latin1')
    kubelet.write(head)
    for (const [from, to] of [
      [client, kubelet],
      [kubelet, client],
    ] as const) {
      from.pipe(to)
      from.once('close', () => to.destroySoon())
    }
  }

  #isClient({ socket }: IncomingMessage): boolean {
    return (socket as TLSSocket).getPeerCertificate().subject?.CN === this.#options.client
  }

  #path({ url = '' }: IncomingMessage): string {
    return url.replace(containerPath, `$1${this.#options.container}`)
  }

  #adopt(socket: Socket): void {
    this.#sockets.add(socket)
    socket.on('error', () => undefined) // its close ends the other side
    socket.once('close', () => this.#sockets.delete(socket))
  }
}
