import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { type WebSocket, WebSocketServer } from 'ws'
import { printableIo, runCli } from '../../../../../../src/kas/cli/cli.ts'
import { get } from '../../../../../../src/kas/modules/views/cli/get.ts'
import { health } from '../../../../../../src/kas/modules/views/cli/health.ts'
import { tree } from '../../../../../../src/kas/modules/views/cli/tree.ts'
import type { Clock } from '../../../../../../src/lib/clock.ts'
import { type Update, type ViewsRequest, viewsProtocol } from '../../../../../../src/proto/views-json.ts'

export interface Viewer {
  readonly authorization: string | undefined
  /** requests that the viewer has sent so far */
  readonly requests: ViewsRequest[]
  /** Calls `listener` for each request, past ones included. */
  onRequest(listener: (request: ViewsRequest) => void): void
  /** Returns the next request that `isIt` accepts; it may have come before the call. */
  request(isIt: (request: ViewsRequest) => boolean): Promise<ViewsRequest>
  update(update: Omit<Update, 'at'> & { at?: number }): void
  error(code: string, text: string): void
  /** Sends the text unchanged. */
  say(text: string): void
  /** Resolves when the viewer has received everything sent so far, or when its end is closed. */
  heard(): Promise<void>
  cut(): void
  close(code: number): void
}

export interface RunOptions {
  readonly clock?: Clock
  readonly env?: Readonly<Record<string, string>>
  readonly stdin?: readonly string[]
  readonly terminal?: {
    readonly columns: number
    readonly rows: number
    /** gets the text of both outputs, in order */
    write?(text: string): void
  }
}

interface ServerOptions {
  refuse?: number
  /** namespace of the kubeconfig's context */
  namespace?: string
  /** answers in place of the API server */
  answer?: (path: string) => { status: number; body: string }
}

/** Starts a kas whose messages the test sends. */
export async function startViewsServer(t: Test, options: ServerOptions = {}) {
  /** paths with queries that the API server was asked for */
  const asked: string[] = []
  const server = createServer(({ url = '' }, response) => {
    const path = url.replace('/k8s-proxy', '')
    asked.push(path)
    const { status, body } = options.answer?.(path) ?? { status: 404, body: '' }
    response.writeHead(status).end(body)
  })
  const sockets = new WebSocketServer({
    noServer: true,
    handleProtocols: (offered) => (offered.has(viewsProtocol) ? viewsProtocol : false),
  })
  const viewers: Viewer[] = []
  const waiting: ((viewer: Viewer) => void)[] = []
  const refusal = Promise.withResolvers<void>()
  server.on('upgrade', (request, socket, head) => {
    if (options.refuse !== undefined || request.url !== '/k8s-proxy/views') {
      const body = JSON.stringify({ kind: 'Status', message: 'GitLab Agent Server: Unauthorized' })
      const status = options.refuse ?? 404
      socket.end(`HTTP/1.1 ${status} No\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
      refusal.resolve()
      return
    }
    sockets.handleUpgrade(request, socket, head, (webSocket) => {
      const viewer = viewerOf(webSocket, request.headers.authorization)
      const waiter = waiting.shift()
      if (waiter) waiter(viewer)
      else viewers.push(viewer)
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    for (const socket of sockets.clients) socket.terminate()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const folder = t.testdir({ config: kubeconfigText(`http://127.0.0.1:${port}/k8s-proxy/`, options.namespace) })
  const viewer = (): Promise<Viewer> => {
    const found = viewers.shift()
    return found ? Promise.resolve(found) : new Promise((resolve) => waiting.push(resolve))
  }
  const run = (...argv: string[]) => runWith({}, ...argv)
  const runWith = ({ clock, env = {}, stdin = [], terminal }: RunOptions, ...argv: string[]) => {
    const said = { stdout: '', stderr: '' }
    const interrupts = new Set<() => void>()
    const writer = (name: 'stdout' | 'stderr') => ({
      write: (text: string) => {
        said[name] += text
        terminal?.write?.(text)
      },
    })
    const size = terminal ? { isTTY: true, columns: terminal.columns, rows: terminal.rows } : {}
    const io = {
      env: { KUBECONFIG: `${folder}/config`, ...env },
      stdout: { ...writer('stdout'), ...size },
      stderr: { ...writer('stderr'), ...size },
      stdin: (async function* () {
        yield* stdin
      })(),
      once: (_: string, listener: () => void) => interrupts.add(listener),
      off: (_: string, listener: () => void) => interrupts.delete(listener),
    }
    const interrupt = () => {
      for (const listener of interrupts) listener()
    }
    const [word = '', ...args] = argv
    const command = { tree, get, health }[word as 'get']
    const code = clock
      ? command.run(args, { io: printableIo(io), clock, random: () => 0.5, groups: [] })
      : runCli(argv, io)
    return { said, code, interrupt }
  }
  const url = new URL(`http://127.0.0.1:${port}/k8s-proxy`)
  return { url, viewer, /** resolves when a viewer was refused */ refused: () => refusal.promise, run, runWith, asked }
}

function viewerOf(webSocket: WebSocket, authorization: string | undefined): Viewer {
  const requests: ViewsRequest[] = []
  const wakes = new Set<() => void>()
  const listeners = new Set<(request: ViewsRequest) => void>()
  webSocket.on('message', (data) => {
    const request = JSON.parse(String(data)) as ViewsRequest
    requests.push(request)
    for (const wake of wakes) wake()
    for (const listener of listeners) listener(request)
  })
  const send = (message: object) => webSocket.send(JSON.stringify(message))
  return {
    authorization,
    requests,
    onRequest(listener) {
      listeners.add(listener)
      requests.forEach(listener)
    },
    request: (isIt) =>
      new Promise((resolve) => {
        const look = () => {
          const found = requests.find(isIt)
          if (!found) return
          wakes.delete(look)
          resolve(found)
        }
        wakes.add(look)
        look()
      }),
    update: (update) => send({ type: 'update', id: 1, update: { at: 1_763_790_000_000, ...update } }),
    error: (code, text) => send({ type: 'error', id: 1, code, text }),
    say: (text) => webSocket.send(text),
    heard: () =>
      new Promise((resolve) => {
        if (webSocket.readyState !== webSocket.OPEN) return resolve()
        const over = () => {
          webSocket.off('pong', over).off('close', over)
          resolve()
        }
        webSocket.on('pong', over).on('close', over)
        webSocket.ping()
      }),
    cut: () => webSocket.terminate(),
    close: (code) => webSocket.close(code),
  }
}

function kubeconfigText(server: string, namespace?: string): string {
  return JSON.stringify({
    clusters: [{ name: 'c', cluster: { server } }],
    users: [{ name: 'u', user: { token: 'pat:42:secret' } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u', namespace } }],
    'current-context': 'x',
  })
}
