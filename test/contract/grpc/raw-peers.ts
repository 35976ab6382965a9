import { once } from 'node:events'
import {
  type ClientHttp2Session,
  connect as connectHttp2,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2'
import { type AddressInfo, connect } from 'node:net'
import { Duplex, PassThrough } from 'node:stream'
import type { Test } from 'tap'

/** Peers on plain node:http2: they do things that no gRPC library would do. */

export const framed = (flag: number, message: Uint8Array, length = message.length) => {
  const prefix = Buffer.alloc(5)
  prefix[0] = flag
  prefix.writeUInt32BE(length, 1)
  return Buffer.concat([prefix, message])
}

export interface RawAnswer {
  /** headers of the response and the trailers together */
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
  readonly rstCode: number
}

export async function rawClient(t: Test, port: number): Promise<ClientHttp2Session> {
  const session = connectHttp2(`http://127.0.0.1:${port}`)
  session.on('error', () => undefined)
  t.teardown(() => session.destroy())
  await once(session, 'connect')
  return session
}

/** Sends `body` unchanged and half-closes, unless `open` is set. */
export function rawCall(
  session: ClientHttp2Session,
  headers: Record<string, string>,
  body: Uint8Array,
  options: { open?: boolean } = {},
): Promise<RawAnswer> {
  const stream = session.request(
    { ':method': 'POST', 'content-type': 'application/grpc', te: 'trailers', ...headers },
    { endStream: false },
  )
  let received: IncomingHttpHeaders = {}
  const chunks: Buffer[] = []
  stream.on('error', () => undefined)
  stream.on('response', (head) => {
    received = { ...received, ...head }
  })
  stream.on('trailers', (trailers) => {
    received = { ...received, ...trailers }
  })
  stream.on('data', (chunk: Buffer) => chunks.push(chunk))
  if (body.length > 0) stream.write(body)
  if (!options.open) stream.end()
  return new Promise((resolve) => {
    stream.once('close', () =>
      resolve({ headers: received, body: Buffer.concat(chunks), rstCode: stream.rstCode ?? 0 }),
    )
  })
}

/** Starts a server that answers each stream with `onStream`. */
export async function rawServer(
  t: Test,
  onStream: (stream: ServerHttp2Stream) => void,
  options: object = {},
): Promise<number> {
  const server: Http2Server = createServer(options)
  const sessions = new Set<{ destroy(): void }>()
  server.on('session', (session) => {
    sessions.add(session)
    session.on('error', () => undefined)
  })
  server.on('stream', (stream) => {
    stream.on('error', () => undefined)
    onStream(stream)
  })
  t.teardown(() => {
    for (const session of sessions) session.destroy()
    return new Promise<void>((resolve) => server.close(() => resolve()))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

/** A connection that can withhold incoming bytes. Bytes that arrive after `hold` come after `release`. */
export interface Gate {
  readonly duplex: Duplex
  hold(): void
  release(): void
  /** Resolves when the withheld bytes satisfy `found`. */
  waiting(found: (bytes: Buffer) => boolean): Promise<void>
}

export async function gate(t: Test, port: number): Promise<Gate> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  socket.on('error', () => undefined)
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  const incoming = new PassThrough()
  let held: Buffer[] | undefined
  let onHeld: (() => void) | undefined
  socket.on('data', (chunk: Buffer) => {
    if (!held) return void incoming.write(chunk)
    held.push(chunk)
    onHeld?.()
  })
  socket.on('close', () => incoming.end())
  const outgoing = new PassThrough()
  outgoing.pipe(socket)
  const duplex = Duplex.from({ readable: incoming, writable: outgoing })
  duplex.on('error', () => undefined)
  return {
    duplex,
    hold: () => {
      held = []
    },
    release: () => {
      const late = held ?? []
      held = undefined
      for (const chunk of late) incoming.write(chunk)
    },
    waiting: (found) =>
      new Promise((resolve) => {
        onHeld = () => {
          if (found(Buffer.concat(held ?? []))) resolve()
        }
        onHeld()
      }),
  }
}

const goawayType = 7

/** Returns the last stream id of the first GOAWAY in HTTP/2 frames; undefined: there is none. */
export function goawayIn(bytes: Buffer): number | undefined {
  for (let at = 0; at + 9 <= bytes.length; at += 9 + bytes.readUIntBE(at, 3)) {
    if (bytes[at + 3] === goawayType && at + 13 <= bytes.length) return bytes.readUInt32BE(at + 9)
  }
  return undefined
}
