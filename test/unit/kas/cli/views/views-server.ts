import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { type WebSocket, WebSocketServer } from 'ws'
import { runCli } from '../../../../../src/kas/cli/cli.ts'
import { type Update, type ViewsRequest, viewsProtocol } from '../../../../../src/proto/views-json.ts'

export interface Viewer {
  readonly authorization: string | undefined
  /** what it has sent so far */
  readonly requests: ViewsRequest[]
  /** the next request that `isIt` takes, those before the call included */
  request(isIt: (request: ViewsRequest) => boolean): Promise<ViewsRequest>
  update(update: Omit<Update, 'at'> & { at?: number }): void
  error(code: string, text: string): void
  /** as it is */
  say(text: string): void
  cut(): void
}

/** A kas that says what the test says. */
export async function startViewsServer(t: Test, options: { refuse?: number } = {}) {
  const server = createServer((_, response) => response.writeHead(404).end())
  const sockets = new WebSocketServer({
    noServer: true,
    handleProtocols: (offered) => (offered.has(viewsProtocol) ? viewsProtocol : false),
  })
  const viewers: Viewer[] = []
  const waiting: ((viewer: Viewer) => void)[] = []
  const refusal = Promise.withResolvers<void>()
  server.on('upgrade', (request, socket, head) => {
    if (options.refuse !== undefined || request.url !== '/k8s-proxy/views') {
      const body = JSON.stringify({ kind: 'Status', message: 'Unauthorized' })
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
  const folder = t.testdir({ config: kubeconfigText(`http://127.0.0.1:${port}/k8s-proxy/`) })
  const viewer = (): Promise<Viewer> => {
    const found = viewers.shift()
    return found ? Promise.resolve(found) : new Promise((resolve) => waiting.push(resolve))
  }
  const run = (...argv: string[]) => {
    const said = { stdout: '', stderr: '' }
    const writer = (name: 'stdout' | 'stderr') => ({
      write: (text: string) => {
        said[name] += text
      },
    })
    const io = {
      env: { KUBECONFIG: `${folder}/config` },
      stdout: writer('stdout'),
      stderr: writer('stderr'),
      stdin: (async function* () {})(),
    }
    return { said, code: runCli(argv, io) }
  }
  return { viewer, /** once somebody was */ refused: () => refusal.promise, run }
}

function viewerOf(webSocket: WebSocket, authorization: string | undefined): Viewer {
  const requests: ViewsRequest[] = []
  const wakes = new Set<() => void>()
  webSocket.on('message', (data) => {
    requests.push(JSON.parse(String(data)) as ViewsRequest)
    for (const wake of wakes) wake()
  })
  const send = (message: object) => webSocket.send(JSON.stringify(message))
  return {
    authorization,
    requests,
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
    cut: () => webSocket.terminate(),
  }
}

function kubeconfigText(server: string): string {
  return JSON.stringify({
    clusters: [{ name: 'c', cluster: { server } }],
    users: [{ name: 'u', user: { token: 'pat:42:secret' } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  })
}
