import { once } from 'node:events'
import {
  type ClientHttp2Session,
  connect,
  createServer,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2'
import type { AddressInfo } from 'node:net'
import type { TornDown } from './processes.ts'

/** Extensions of our kas and our agentk beyond the stock protocol (doc/internals/agentk-placement.md). */
export const extensions = ['home', 'ping', 'reuse'] as const
export type Extension = (typeof extensions)[number]

const keysOf: Readonly<Record<Extension, readonly string[]>> = {
  home: ['kas-pod', 'kas-role', 'kas-replica', 'kas-home', 'kas-home-address', 'kas-standby', 'kas-standby-address'],
  ping: ['kas-ping-interval-ms'],
  reuse: [],
}
const featuresKey = 'kas-features'

export interface Withheld {
  /** extensions of agentk that kas never gets: an older agentk */
  readonly ofAgentk: readonly Extension[]
  /** extensions of kas that agentk never gets: an older kas */
  readonly ofKas: readonly Extension[]
}

/**
 * Starts a relay between agentk and kas, gRPC in the clear, that withholds extensions from both. It passes all else on
 * unchanged: messages, resets, GOAWAY.
 *
 * @returns its port, and the extensions that have passed
 */
export async function startSkewRelay(t: TornDown, kasPort: number, withheld: Withheld) {
  const server = createServer()
  const sessions = new Map<ServerHttp2Session, ClientHttp2Session>()
  /** names of headers with their values, of either direction */
  const passed = new Set<string>()
  server.on('session', (down) => {
    const up = connect(`http://127.0.0.1:${kasPort}`)
    sessions.set(down, up)
    for (const side of [down, up]) side.on('error', () => undefined) // 'close' reports it
    up.on('goaway', () => down.close())
    down.on('goaway', () => up.close())
    up.once('close', () => down.destroy())
    down.once('close', () => {
      up.destroy()
      sessions.delete(down)
    })
  })
  const filtered = (headers: IncomingHttpHeaders, extensions: readonly Extension[]) => {
    const kept = without(headers, extensions)
    for (const [name, value] of Object.entries(kept))
      if (name.startsWith('kas-')) passed.add(`${name}: ${String(value)}`)
    return kept
  }
  server.on('stream', (stream, headers) => {
    const up = sessions.get(stream.session as ServerHttp2Session)
    if (up) relay(stream, up, { request: filtered(headers, withheld.ofAgentk), of: (h) => filtered(h, withheld.ofKas) })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    for (const down of sessions.keys()) down.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
  return { port: (server.address() as AddressInfo).port, passed }
}

interface Relayed {
  readonly request: IncomingHttpHeaders
  of(response: IncomingHttpHeaders): IncomingHttpHeaders
}

function relay(stream: ServerHttp2Stream, up: ClientHttp2Session, { request: headers, of }: Relayed): void {
  const request = up.request(headers, { endStream: false })
  let trailers: IncomingHttpHeaders = {}
  request.on('response', (response, flags) => {
    if (stream.destroyed) return
    const isAll = (flags & 1) !== 0 // END_STREAM
    stream.respond(of(response), isAll ? { endStream: true } : { waitForTrailers: true })
  })
  request.on('trailers', (received) => {
    trailers = received
  })
  stream.on('wantTrailers', () => stream.sendTrailers(trailers))
  stream.on('data', (chunk) => void request.write(chunk))
  stream.on('end', () => void request.end())
  request.on('data', (chunk) => void (stream.destroyed || stream.write(chunk)))
  request.on('end', () => void (stream.headersSent && !stream.destroyed && stream.end()))
  for (const [one, other] of [
    [stream, request],
    [request, stream],
  ] as const) {
    one.on('error', () => undefined) // 'close' reports it
    one.once('close', () => {
      if (one.rstCode && !other.closed) other.close(one.rstCode)
    })
  }
}

/** Removes the headers of the extensions, and those that HTTP/2 does not accept from an application. */
function without(headers: IncomingHttpHeaders, extensions: readonly Extension[]): IncomingHttpHeaders {
  const names = new Set(extensions.flatMap((extension) => keysOf[extension]))
  const kept = Object.entries(headers).flatMap(([name, value]) => {
    if (names.has(name)) return []
    if (name !== featuresKey) return [[name, value] as const]
    const features = String(value)
      .split(',')
      .filter((feature) => !extensions.some((extension) => extension === feature))
    return features.length > 0 ? [[name, features.join(',')] as const] : []
  })
  return Object.fromEntries(kept)
}
