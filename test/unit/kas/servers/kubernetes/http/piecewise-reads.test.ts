import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { coalesceChunks } from '../../../../../../src/kas/servers/kubernetes/http/coalesce-chunks.ts'
import type { Owner } from '../../../../../../src/kas/servers/kubernetes/http/idle-connections.ts'
import {
  type PiecesOptions,
  PiecewiseReads,
} from '../../../../../../src/kas/servers/kubernetes/http/piecewise-reads.ts'
import { ShortChunks } from '../../../../../../src/kas/servers/kubernetes/http/short-chunks.ts'
import { eventually } from '../../../../../support/eventually.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

/** A server of HTTP whose connections are read in pieces; `pieces` are the bytes that its parser has had. */
async function serve(t: Test, options: Partial<PiecesOptions>, clock = new ManualClock()) {
  const server = createServer()
  const pieces: Buffer[] = []
  const served = {
    server,
    clock,
    pieces,
    reads: undefined as PiecewiseReads | undefined,
    socket: undefined as Socket | undefined,
  }
  server.on('connection', (socket) => {
    socket.on('data', (piece: Buffer) => pieces.push(piece))
    served.socket = socket
    served.reads = new PiecewiseReads(socket, { clock, nextBytes: () => 1000, pauseMs: () => 0, ...options })
  })
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
    served.socket?.destroy()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  t.teardown(() => client.destroy())
  return { served, client, text: () => Buffer.concat(pieces).toString('latin1') }
}

const headOf = (more: string) => `POST / HTTP/1.1\r\nHost: x\r\n${more}\r\n\r\n`

async function bodyOf(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = []
  for await (const piece of request) pieces.push(piece)
  return Buffer.concat(pieces).toString('latin1')
}

t.test(
  'requests of any length come whole and in order, in pieces, and then their end',
  { timeout: 20_000 },
  async (t) => {
    const { served, client } = await serve(t, {})
    const bodies = ['a', 'b'.repeat(999), 'c'.repeat(1000), 'd'.repeat(700_000), '', 'e'.repeat(3001)]
    const came: Promise<string>[] = []
    served.server.on('request', (request, response) => {
      came.push(bodyOf(request))
      response.end()
    })
    const ended = new Promise((resolve) => served.server.on('connection', (socket) => socket.once('end', resolve)))
    client.end(bodies.map((body) => `${headOf(`Content-Length: ${body.length}`)}${body}`).join(''))
    await ended
    await eventually(() => came.length === bodies.length)
    t.ok((await Promise.all(came)).every((body, i) => body === bodies[i]))
    t.ok(
      served.pieces.every(({ length }) => length <= 1000),
      'no piece is longer',
    )
  },
)

t.test('what waits is one read of the socket, whatever the client sends', { timeout: 20_000 }, async (t) => {
  let bytes = 100
  const nextBytes = () => {
    const now = bytes
    bytes = 0
    return now
  }
  const { served, client, text } = await serve(t, { nextBytes })
  const all = headOf('Content-Length: 5000000') + 'x'.repeat(5_000_000)
  client.write(all)
  await eventually(() => text().length > 0)
  const readBytes = () => served.socket?.bytesRead ?? 0
  for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
  t.equal(text(), all.slice(0, 100))
  t.ok(readBytes() <= 128 * 1024, `${readBytes()} bytes were read`)
  bytes = 700
  served.reads?.goOn()
  t.equal(text(), all.slice(0, 800))
})

t.test('after a pause it goes on by itself', { timeout: 20_000 }, async (t) => {
  let isPaid = false
  const pauseMs = () => {
    isPaid = !isPaid
    return isPaid ? 0 : 50
  }
  const { served, client, text } = await serve(t, { pauseMs })
  const all = headOf('Content-Length: 5000') + 'x'.repeat(5000)
  client.write(all)
  for (let pieces = 1; pieces <= 5; pieces++) {
    await eventually(() => served.clock.pending === 1)
    t.equal(text(), all.slice(0, pieces * 1000))
    served.reads?.goOn()
    t.equal(text().length, pieces * 1000, 'nobody cuts the pause short')
    served.clock.advance(50)
  }
  await eventually(() => text() === all)
})

t.test('a socket that is paused gets none until it is resumed', { timeout: 20_000 }, async (t) => {
  const { served, client } = await serve(t, {})
  const requested = once(served.server, 'request')
  client.write(headOf('Content-Length: 500000') + 'x'.repeat(500_000))
  const [request] = (await requested) as [IncomingMessage]
  await eventually(() => served.socket?.isPaused() === true)
  const before = served.pieces.length
  for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
  t.equal(served.pieces.length, before, 'nobody reads the body')
  t.equal((await bodyOf(request)).length, 500_000)
})

t.test('a connection that is upgraded gets the rest in order', { timeout: 20_000 }, async (t) => {
  const { served, client } = await serve(t, { nextBytes: () => 64 })
  const upgraded = once(served.server, 'upgrade')
  const rest = Array.from({ length: 500 }, (_, i) => `frame ${i};`).join('')
  client.write(`GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: any\r\n\r\n${rest}`)
  const got: Buffer[] = []
  served.server.on('upgrade', (_, socket: Socket, head) => {
    served.reads?.stop()
    got.push(head)
    socket.on('data', (piece) => got.push(piece))
  })
  await upgraded
  await eventually(() => Buffer.concat(got).toString() === rest)
  client.end('the last')
  await eventually(() => Buffer.concat(got).toString() === `${rest}the last`)
})

const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`

/** A connection of a caller that is let in, with pieces of 4 KiB, as `Connection` has them. */
async function callerOf(t: Test, owner: Owner) {
  const clock = new ManualClock()
  const shortChunks = new ShortChunks(clock)
  const connection = { owner, bodyNow: 'chunked' as const, shortChunks: 0 }
  const ground = await serve(t, { nextBytes: () => 4096, pauseMs: () => shortChunks.pauseMs(connection) }, clock)
  ground.served.server.prependListener('request', (request) =>
    coalesceChunks(request, (isShort) => {
      if (isShort) connection.shortChunks += 1
    }),
  )
  return ground
}

t.test('attack: single bytes without end are parsed no faster than 20,000 a second', { timeout: 60_000 }, async (t) => {
  const count = 300_000
  const owner = { agentId: 1n, callerKey: 'evil' } as unknown as Owner
  const { served, client } = await callerOf(t, owner)
  const requested = once(served.server, 'request')
  client.write(`${headOf('Transfer-Encoding: chunked')}${chunk('a').repeat(count)}0\r\n\r\n`)
  const [request] = (await requested) as [IncomingMessage]
  let bytes = 0
  let isWhole = false
  request.on('data', ({ length }) => {
    bytes += length
  })
  request.on('end', () => {
    isWhole = true
  })
  /** the burst, and one piece beyond it */
  const atOnce = 1000 + 683
  const stepMs = 10
  for (let ms = 0; !isWhole; ms += stepMs) {
    await new Promise(setImmediate)
    const allowed = (20_000 * ms) / 1000 + atOnce
    if (bytes > allowed) t.fail(`${bytes} after ${ms} ms`)
    served.clock.advance(stepMs)
  }
  t.equal(bytes, count)
})

t.test('callers of few short chunks do not wait for one of many', async (t) => {
  const shortChunks = new ShortChunks(new ManualClock())
  const of = (callerKey: string, count: number) => ({
    owner: { agentId: 1n, callerKey } as unknown as Owner,
    bodyNow: 'chunked' as const,
    shortChunks: count,
  })
  const evil = of('evil', 100_000)
  t.ok(shortChunks.pauseMs(evil) > 1000)
  t.equal(evil.shortChunks, 0, 'they are paid for once')
  t.ok(shortChunks.pauseMs(of('good', 10)) <= 1)
  t.ok(shortChunks.pauseMs(of('evil', 0)) > 1000, 'its next connection waits, too')
  t.equal(shortChunks.pauseMs({ ...of('evil', 0), bodyNow: undefined }), 0, 'other requests do not')
  t.equal(shortChunks.pauseMs({ ...of('', 10), owner: undefined }), 0, 'the bytes of strangers wait anyway')
})
