import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createHttps } from 'node:https'
import { type AddressInfo, createServer as createTcp, type Server, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import type { Test } from 'tap'
import { WebSocketServer } from 'ws'
import type { Pem } from '../../../../dev/certificates.ts'
import { printableIo } from '../../../../src/kas/cli/cli.ts'
import { commandGroups } from '../../../../src/kas/cli/commands.ts'
import { UsageError } from '../../../../src/kas/command/command.ts'
import type { Clock } from '../../../../src/lib/clock.ts'
import { viewsProtocol } from '../../../../src/proto/views-json.ts'

/** Servers at the address of kas, and commands that call them. */

export type Answer = { readonly status: number; readonly body: string; readonly headers?: Record<string, string> }

/** Starts a server on a port that the system chooses. @returns the port */
export async function listen(t: Test, server: Server): Promise<number> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

/** Starts an HTTP server that gives this answer to each request, also to upgrades. */
export async function answering(t: Test, answer: Answer | ((path: string) => Answer), pem?: Pem): Promise<string> {
  const listener: RequestListener = ({ url = '' }, response) => {
    const { status, body, headers } = typeof answer === 'function' ? answer(url) : answer
    response.writeHead(status, { connection: 'close', ...headers }).end(body)
  }
  const options = pem && { key: pem.key, cert: pem.certificate }
  const server = options ? createHttps(options, listener) : createServer(listener)
  return `${pem ? 'https' : 'http'}://127.0.0.1:${await listen(t, server)}/k8s-proxy/`
}

/** Starts a server that accepts connections and writes `bytes`; undefined: nothing. */
export async function frozen(t: Test, bytes?: string): Promise<string> {
  const server = createTcp((socket) => void (bytes !== undefined && socket.end(bytes)))
  return `http://127.0.0.1:${await listen(t, server)}/k8s-proxy/`
}

/** Starts a kas with this state. Its views send `view`; undefined: nothing. */
export async function kasOf(t: Test, state: object, view?: object): Promise<string> {
  const server = createServer((request, response) => {
    if (request.url?.startsWith('/k8s-proxy/gitops/state')) return void response.end(JSON.stringify(state))
    if (request.url?.startsWith('/k8s-proxy/agents')) response.end('{"user":"ada","agents":[],"unread":0}')
  })
  const views = new WebSocketServer({ noServer: true, handleProtocols: () => viewsProtocol })
  server.on('upgrade', (request, socket, head) =>
    views.handleUpgrade(request, socket, head, (opened) => {
      opened.once('message', () => void (view && opened.send(JSON.stringify(view))))
    }),
  )
  return `http://127.0.0.1:${await listen(t, server)}/k8s-proxy/`
}

export interface Run {
  readonly said: { stdout: string; stderr: string }
  /** exit code of the program */
  readonly code: Promise<number>
}

/** Runs a command with the test's clock. */
export function begin(line: string, { clock, env }: { clock: Clock; env: Readonly<Record<string, string>> }): Run {
  const argv = line.split(' ')
  const said = { stdout: '', stderr: '' }
  const to = (name: 'stdout' | 'stderr') => ({
    write: (text: string) => {
      said[name] += text
    },
  })
  const io = printableIo({ env, stdout: to('stdout'), stderr: to('stderr'), stdin: Readable.from([]) })
  const run = async () => {
    const entries = commandGroups.flatMap(({ commands }) => commands)
    const entry = entries.find(({ words }) => words === line || line.startsWith(`${words} `))
    const command = await (entry as NonNullable<typeof entry>).load()
    try {
      return await command.run(argv.slice(1), { io, clock, random: () => 0.5, groups: commandGroups })
    } catch (error) {
      io.stderr.write(`${(error as Error).message}\n`)
      return error instanceof UsageError ? 2 : 1
    }
  }
  return { said, code: run() }
}

export function kubeconfigText(
  server: string,
  { ca, token = 'pat:42:secret', exec }: { ca?: string; token?: string; exec?: object } = {},
) {
  const authority = ca === undefined ? {} : { 'certificate-authority-data': Buffer.from(ca).toString('base64') }
  return JSON.stringify({
    clusters: [{ name: 'c', cluster: { server, ...authority } }],
    users: [{ name: 'u', user: exec ? { exec } : { token } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  })
}
