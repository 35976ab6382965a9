import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { Readable } from 'node:stream'
import type { Test } from 'tap'
import { WebSocketServer } from 'ws'
import { runCli } from '../../../../src/kas/cli/cli.ts'
import type { CommandGroup } from '../../../../src/kas/command/command.ts'
import { viewsProtocol } from '../../../../src/proto/views-json.ts'

export interface Said {
  code: number
  stdout: string
  stderr: string
}

/** Returns a server's answer to a path: JSON or plain text. */
export type Answer = (path: string) => { readonly status?: number; readonly body: string } | undefined

/** Starts a kas, or the socket of a replica, that answers as the test says, to views too. */
export async function startHostileServer(t: Test) {
  const play: { answer: Answer; view: unknown } = { answer: () => undefined, view: undefined }
  const serve = () =>
    createServer(({ url = '' }, response) => {
      const { status = 200, body } = play.answer(url.replace('/k8s-proxy', '')) ?? { status: 404, body: '' }
      response.writeHead(status).end(body)
    })
  const [server, socketServer] = [serve(), serve()]
  const sockets = new WebSocketServer({ noServer: true, handleProtocols: () => viewsProtocol })
  server.on('upgrade', (request, socket, head) => {
    const refusal = play.answer('/views')
    if (refusal?.status !== undefined) {
      const body = Buffer.from(refusal.body)
      socket.write(`HTTP/1.1 ${refusal.status} No\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n`)
      socket.end(body)
      return
    }
    sockets.handleUpgrade(request, socket, head, (webSocket) => {
      webSocket.on('message', () => webSocket.send(JSON.stringify(play.view)))
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    for (const socket of sockets.clients) socket.terminate()
    server.close()
    socketServer.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/k8s-proxy/`
  const folder = t.testdir({ config: kubeconfigText(url), token: 'kaspat-x\n' })
  t.chdir(folder) // a short path, because the path of a socket is bounded
  await once(socketServer.listen('ops'), 'listening')
  return { play, url, folder }
}

/** Starts a server that answers each connection with these bytes. */
export async function startRawServer(t: Test, bytes: Buffer): Promise<string> {
  const server = createTcpServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => socket.end(bytes))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/k8s-proxy/`
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly isTerminal?: boolean
  /** default: the groups of kas */
  readonly groups?: readonly CommandGroup[]
}

/** Runs a command as the program does, for a terminal or for a file. */
export async function run(
  argv: readonly string[],
  { env = {}, isTerminal = false, groups }: RunOptions = {},
): Promise<Said> {
  const said = { code: 0, stdout: '', stderr: '' }
  const to = (name: 'stdout' | 'stderr') => ({
    write: (text: string) => {
      said[name] += text
    },
    ...(isTerminal ? { isTTY: true, columns: 120, rows: 50 } : {}),
  })
  const io = {
    env: { KUBECONFIG: 'config', KAS_OPS_SOCKET: 'ops', KAS_DIRECTORY_FILE: 'directory.yaml', ...env },
    stdout: to('stdout'),
    stderr: to('stderr'),
    stdin: Readable.from([]),
  }
  said.code = await runCli(argv, io, groups)
  return said
}

export function kubeconfigText(server: string): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster: { server } }],
    users: [{ name: 'u', user: { token: 'pat:42:secret' } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  })
}
