import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import type { TornDown } from './processes.ts'

/** what `/large` answers */
export const largeBytes = 16 * 1024 * 1024

/**
 * An HTTP server in the place of an API server, for what a tunnel must carry:
 * - `/large`: 16 MiB
 * - `/events`: open until the end; `emitEvent` writes to all of them
 * - `/hang`: never answers
 * - `/short`: says 1,000 bytes, ends after 10
 * - an upgrade: 101, then every byte comes back; `/refuse-upgrade`: 403 instead
 * - all else: JSON of what came, the body as a hash
 */
export class ClusterDouble {
  readonly url: string
  readonly #watches = new Set<ServerResponse>()
  #onHanging: ((request: { gone: Promise<void> }) => void) | undefined

  private constructor(server: ReturnType<typeof createServer>) {
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    server.on('request', (request, response) => this.#answer(request, response))
    server.on('upgrade', (request, socket) => upgrade(request, socket))
  }

  static async start(t: TornDown): Promise<ClusterDouble> {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const sockets = new Set<Duplex>()
    server.on('connection', (socket) => sockets.add(socket))
    t.teardown(() => {
      for (const socket of sockets) socket.destroy()
      server.close()
    })
    return new ClusterDouble(server)
  }

  get watches(): number {
    return this.#watches.size
  }

  emitEvent(text: string): void {
    for (const watch of this.#watches) watch.write(text)
  }

  /** The next `/hang` request; `gone` resolves when its client has left. */
  nextHanging(): Promise<{ gone: Promise<void> }> {
    const { promise, resolve } = Promise.withResolvers<{ gone: Promise<void> }>()
    this.#onHanging = resolve
    return promise
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const path = request.url?.split('?')[0]
    if (path === '/large') response.end(Buffer.alloc(largeBytes, 'x'))
    else if (path === '/events') this.#watch(response)
    else if (path === '/hang') this.#hang(response)
    else if (path === '/short') {
      response.writeHead(200, { 'content-length': 1000 })
      response.write('ten bytes.', () => response.destroy())
    } else echo(request, response).catch(() => response.destroy()) // its client left
  }

  #watch(response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.flushHeaders()
    this.#watches.add(response)
    response.once('close', () => this.#watches.delete(response))
  }

  #hang(response: ServerResponse): void {
    const gone = new Promise<void>((resolve) => response.once('close', () => resolve()))
    this.#onHanging?.({ gone })
  }
}

async function echo(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const hash = createHash('sha256')
  let bytes = 0
  for await (const chunk of request) {
    hash.update(chunk)
    bytes += chunk.length
  }
  const { method, url, headers } = request
  response.setHeader('Content-Type', 'application/json')
  response.setHeader('X-Answer', ['one', 'two'])
  response.end(JSON.stringify({ method, url, headers, bytes, sha256: hash.digest('hex') }))
}

function upgrade(request: IncomingMessage, socket: Duplex): void {
  socket.on('error', () => socket.destroy())
  if (request.url === '/refuse-upgrade') {
    socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n')
    return
  }
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: ${request.headers.upgrade}\r\nConnection: Upgrade\r\n\r\nfirst,`,
  )
  socket.pipe(socket)
}
