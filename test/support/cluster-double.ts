import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import type { TornDown } from './processes.ts'

/** size of the answer of `/large` */
export const largeBytes = 16 * 1024 * 1024
/** size of the answer of `/huge` */
export const hugeBytes = 4 * largeBytes
const slowMs = 200

/**
 * An HTTP server in place of an API server, with answers that a tunnel must carry:
 * - `/large`: 16 MiB; `/huge`: 64 MiB
 * - `/steering`: headers that would steer a front if they were passed on
 * - `/events`: open until the end; `emitEvent` writes to all of them
 * - `/slow`: as all other paths, after 200 ms
 * - `/hang`: never answers, not even an upgrade
 * - `/short`: announces 1,000 bytes, ends after 10
 * - an upgrade: 101, then every byte comes back; `/refuse-upgrade`: 403 instead
 * - all other paths: JSON of the request, with a hash of the body
 */
export class ClusterDouble {
  readonly url: string
  readonly #watches = new Set<ServerResponse>()
  #onHanging: ((request: { gone: Promise<void> }) => void) | undefined

  private constructor(server: ReturnType<typeof createServer>) {
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    server.on('request', (request, response) => this.#answer(request, response))
    server.on('upgrade', (request, socket) => {
      if (request.url === '/hang') this.#hang(socket)
      else upgrade(request, socket)
    })
  }

  static async start(t: TornDown): Promise<ClusterDouble> {
    const server = createServer({ maxHeaderSize: 2 * 1024 * 1024 })
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

  /** Resolves with the next `/hang` request; its `gone` resolves when the client has left. */
  nextHanging(): Promise<{ gone: Promise<void> }> {
    const { promise, resolve } = Promise.withResolvers<{ gone: Promise<void> }>()
    this.#onHanging = resolve
    return promise
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const path = request.url?.split('?')[0]
    if (path === '/large') response.end(Buffer.alloc(largeBytes, 'x'))
    else if (path === '/huge') response.end(Buffer.alloc(hugeBytes, 'x'))
    else if (path === '/steering') steer(response)
    else if (path === '/events') this.#watch(response)
    else if (path === '/slow') setTimeout(() => echo(request, response).catch(() => response.destroy()), slowMs)
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

  #hang(answer: ServerResponse | Duplex): void {
    const gone = new Promise<void>((resolve) => answer.once('close', () => resolve()))
    this.#onHanging?.({ gone })
  }
}

function steer(response: ServerResponse): void {
  const headers = [
    'X-Accel-Redirect',
    '@kas-0',
    'X-Accel-Buffering',
    'yes',
    'X-Accel-Limit-Rate',
    '1',
    'X-Sendfile',
    '/',
  ]
  response.writeHead(200, headers)
  response.end('not steered')
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
  const { upgrade: protocol, 'sec-websocket-key': key } = request.headers
  const accept = key === undefined ? '' : `Sec-WebSocket-Accept: ${acceptOf(key)}\r\n`
  const head = `HTTP/1.1 101 Switching Protocols\r\nUpgrade: ${protocol}\r\nConnection: Upgrade\r\n${accept}\r\n`
  socket.write(`${head}first,`)
  socket.pipe(socket)
}

/** Value of `Sec-WebSocket-Accept` by RFC 6455 4.2.2, which haproxy checks. */
function acceptOf(key: string): string {
  return createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64')
}
