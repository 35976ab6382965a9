import type { IncomingMessage } from 'node:http'
import { type Duplex, PassThrough } from 'node:stream'
import { type RawData, type WebSocket, WebSocketServer } from 'ws'
import { type CommandStreams, exitStatus, runEcho } from './echo-command.ts'

/**
 * Remote commands over WebSocket: each message is a channel's number and its bytes
 * (doc/reference/tunnel-protocol.md 6.5).
 */

const channel = { stdin: 0, stdout: 1, stderr: 2, status: 3, close: 255 } as const
/** channels of the first forwarded port */
const forwarded = { data: 0, error: 1 } as const
/** v5 adds a message for the end of a channel. */
const subprotocols = ['v5.channel.k8s.io', 'v4.channel.k8s.io']
const maxMessageBytes = 1_048_576

const server = new WebSocketServer({
  noServer: true,
  clientTracking: false,
  perMessageDeflate: false,
  maxPayload: maxMessageBytes,
  handleProtocols: (offered) => subprotocols.find((name) => offered.has(name)) ?? false,
})

/** Returns true if a client offers one of these sub-protocols. */
export function offersChannels(request: IncomingMessage): boolean {
  const offered = (request.headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim())
  return subprotocols.some((name) => offered.includes(name))
}

/** Accepts the upgrade and serves the command of the query, until it or the connection ends. */
export function serveExec(request: IncomingMessage, socket: Duplex, head: Buffer, query: URLSearchParams): void {
  server.handleUpgrade(request, socket, head, (webSocket) => void serveCommand(webSocket, query))
}

/**
 * Accepts the upgrade and echoes the bytes for the pod's port. kubectl uses SPDY for port-forward, which the double
 * does not have.
 */
export function servePortForward(request: IncomingMessage, socket: Duplex, head: Buffer, query: URLSearchParams): void {
  const port = Buffer.alloc(2)
  port.writeUInt16LE(Number(query.get('ports')) & 0xffff)
  server.handleUpgrade(request, socket, head, (webSocket) => {
    webSocket.on('error', () => undefined) // followed by `close`
    for (const number of Object.values(forwarded)) webSocket.send(Buffer.concat([Uint8Array.of(number), port]))
    webSocket.on('message', (data: Buffer) => {
      if (data[0] === forwarded.data && data.length > 1) webSocket.send(data)
    })
  })
}

async function serveCommand(webSocket: WebSocket, query: URLSearchParams): Promise<void> {
  const isOn = (name: string) => ['true', '1'].includes(query.get(name) ?? '')
  const stdin = readStdin(webSocket)
  const streams: CommandStreams = {
    stdin: isOn('stdin') ? stdin : undefined,
    tty: isOn('tty'),
    stdout: (bytes) => send(webSocket, channel.stdout, bytes),
    stderr: (bytes) => send(webSocket, channel.stderr, bytes),
  }
  try {
    const code = await runEcho(query.getAll('command'), streams)
    await send(webSocket, channel.status, Buffer.from(JSON.stringify(exitStatus(code))))
    webSocket.close(1000)
  } catch {
    webSocket.terminate() // the client left
  }
}

/** Returns the bytes of channel 0. While they are not read, the socket is not read either. */
function readStdin(webSocket: WebSocket): PassThrough {
  const stdin = new PassThrough()
  stdin.on('error', () => undefined)
  stdin.on('drain', () => webSocket.resume())
  webSocket.on('message', (data: RawData) => {
    const bytes = Buffer.isBuffer(data)
      ? data
      : Buffer.concat([data].flat().map((part) => Buffer.from(part as ArrayBuffer)))
    if (bytes[0] === channel.stdin && bytes.length > 1 && stdin.writable) {
      if (!stdin.write(bytes.subarray(1))) webSocket.pause()
    }
    if (bytes[0] === channel.close && bytes[1] === channel.stdin) {
      stdin.end()
      webSocket.resume() // an ended stream emits no 'drain'
    }
  })
  webSocket.on('error', () => undefined) // followed by `close`
  webSocket.once('close', () => stdin.destroy())
  return stdin
}

function send(webSocket: WebSocket, number: number, bytes: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    webSocket.send(Buffer.concat([Uint8Array.of(number), bytes]), (error) => (error ? reject(error) : resolve()))
  })
}
