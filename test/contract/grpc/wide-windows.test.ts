import { once } from 'node:events'
import type { ClientHttp2Session, ClientHttp2Stream } from 'node:http2'
import { type AddressInfo, createServer } from 'node:net'
import t, { type Test } from 'tap'
import { maxUnreadBytesPerAgent } from '../../../src/kas/memory/unread-by-agent.ts'
import { delay } from '../../../src/lib/signals.ts'
import { type ServerSession, serveSession } from '../../../src/proto/grpc/server-session.ts'
import type { Handler } from '../../../src/proto/grpc/server-stream.ts'
import { UnreadBytes } from '../../../src/proto/grpc/unread-bytes.ts'
import { WindowBudget } from '../../../src/proto/grpc/window-budget.ts'
import { eventually } from '../../support/eventually.ts'
import { FarPort } from '../../support/far-port.ts'
import { framed, rawClient } from './raw-peers.ts'

/** A distant peer that obeys SETTINGS. Each test decides which of its streams are read. */

const MiB = 1024 * 1024
const roundTripMs = 20
const message = framed(0, Buffer.alloc(64 * 1024 - 5))

interface Ground {
  readonly session: ClientHttp2Session
  /** Requests the bytes of an open stream. The peer sends only after this. */
  readonly ask: (name: string) => void
  /** Lets the reader `late`, which stopped after its first message, read the others, one every 2 ms. */
  readonly takeLate: () => void
  readonly unread: UnreadBytes
  readonly windows: WindowBudget
  /** bytes read of each stream, by its name */
  readonly read: ReadonlyMap<string, number>
  readonly failures: readonly unknown[]
}

/** Starts readers: `fast` reads everything, `slow` one message every 32 ms (2 MB/s), `stopped` only one message. */
async function ground(t: Test): Promise<Ground> {
  const windows = new WindowBudget(30 * MiB)
  const unread = new UnreadBytes(maxUnreadBytesPerAgent, windows)
  const read = new Map<string, number>()
  const failures: unknown[] = []
  const asked = new Map<string, PromiseWithResolvers<void>>()
  const askOf = (name: string) => asked.get(name) ?? asked.set(name, Promise.withResolvers()).get(name)
  const late = Promise.withResolvers<void>()
  const sessions = new Set<ServerSession>()
  const handler: Handler = async (stream) => {
    stream.session.chargeTo(unread)
    stream.chargeTo(unread)
    const name = String(stream.metadata.name)
    await askOf(name)?.promise
    stream.receives(true)
    stream.send(Buffer.from('go'))
    try {
      for await (const { length } of stream.messages) {
        read.set(name, (read.get(name) ?? 0) + length)
        if (name.startsWith('slow')) await delay(32)
        if (name === 'late') await (read.get(name) === length ? late.promise : delay(2))
        if (name.startsWith('stopped')) await once(stream.signal, 'abort')
      }
    } catch (error) {
      failures.push(error)
    }
  }
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    sessions.add(serveSession(socket, () => handler))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const far = await FarPort.start((server.address() as AddressInfo).port, roundTripMs)
  t.teardown(() => {
    for (const session of sessions) session.destroy()
    far.stop()
    server.close()
  })
  const ask = (name: string) => askOf(name)?.resolve()
  return { session: await rawClient(t, far.port), ask, takeLate: () => late.resolve(), unread, windows, read, failures }
}

/** Opens a stream. After the request for bytes it sends as fast as the window allows. */
function open(session: ClientHttp2Session, name: string): ClientHttp2Stream {
  const head = { ':method': 'POST', ':path': '/a.B/C', 'content-type': 'application/grpc', name }
  const stream = session.request(head, { endStream: false })
  stream.on('error', () => undefined)
  const write = () => {
    while (!stream.destroyed && stream.write(message));
  }
  stream.on('drain', write)
  stream.once('data', write)
  return stream
}

async function widened(session: ClientHttp2Session, toBytes: number): Promise<void> {
  while ((session.remoteSettings.initialWindowSize ?? 0) < toBytes) await once(session, 'remoteSettings')
}

/** Resolves when nothing is in flight: all windows are full. */
async function atRest(session: ClientHttp2Session, unread: UnreadBytes): Promise<void> {
  for (let before = -1; before !== unread.bytes; ) {
    before = unread.bytes
    await roundTrips(session, 5)
  }
}

async function roundTrips(session: ClientHttp2Session, count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => session.ping(resolve))
}

t.test('a reader that takes all widens the windows of a long way, as far as the budget goes', async (t) => {
  const { session, ask, failures } = await ground(t)
  open(session, 'fast')
  ask('fast')
  await widened(session, 16 * MiB)
  t.equal(session.remoteSettings.initialWindowSize, 16 * MiB)
  t.same(failures, [])
})

t.test('those that stop after windows have become wide hold no more than the budgets', async (t) => {
  const { session, ask, unread, windows, failures } = await ground(t)
  const fast = open(session, 'fast')
  const names = Array.from({ length: 500 }, (_, i) => `stopped ${i}`)
  for (const name of names) open(session, name)
  ask('fast')
  await widened(session, 16 * MiB)
  for (const name of names.slice(0, 60)) {
    ask(name)
    await roundTrips(session, 3)
  }
  await atRest(session, unread)
  t.same(failures, [], 'sixty may stop, one after another')
  for (const name of names.slice(60)) ask(name)
  await atRest(session, unread)
  const most = unread.maxBytes + windows.maxBytes
  t.ok(unread.bytes <= most, `${unread.bytes} bytes wait, at most ${most}`)
  t.notOk(fast.destroyed, 'who reads goes on')
  t.ok((session.remoteSettings.initialWindowSize ?? 0) < MiB, 'windows are narrow')
  t.comment(
    `${Math.round(unread.bytes / MiB)} MiB wait, of at most ${most / MiB}; ${failures.length} of 500 have ended`,
  )
})

t.test('ten slow readers and a fast one: none ends, and the fast one is not slowed to their pace', async (t) => {
  const { session, ask, read, failures } = await ground(t)
  const slow = Array.from({ length: 10 }, (_, i) => `slow ${i}`)
  for (const name of ['fast', ...slow]) open(session, name)
  ask('fast')
  await widened(session, 16 * MiB)
  for (const name of slow) ask(name)
  const before = read.get('fast') ?? 0
  const ofSlow = () => slow.reduce((sum, name) => sum + (read.get(name) ?? 0), 0)
  await eventually(() => ofSlow() > 20 * MiB || Promise.reject(new Error('not yet')), { timeoutMs: 30_000 })
  t.same(failures, [], 'none has ended')
  const fast = (read.get('fast') ?? 0) - before
  t.ok(fast > (3 * ofSlow()) / 10, `${fast} bytes beside ${ofSlow() / 10}`)
  t.ok((session.remoteSettings.initialWindowSize ?? 0) >= MiB, 'windows are not narrow')
})

t.test(
  'what is taken long after it came brings no PING that follows nothing: a stock kas would end the connection',
  async (t) => {
    const { session, ask, takeLate, unread, read, failures } = await ground(t)
    const fast = open(session, 'fast')
    ask('fast')
    await widened(session, 16 * MiB)
    fast.close()
    const stream = session.request(
      { ':method': 'POST', ':path': '/a.B/C', 'content-type': 'application/grpc', name: 'late' },
      { endStream: false },
    )
    stream.once('data', () => {
      for (let sent = 0; sent < 14 * MiB; sent += message.length) stream.write(message)
    })
    ask('late')
    await eventually(() => unread.bytes > 13 * MiB || Promise.reject(new Error('not yet')))
    await atRest(session, unread)
    let pings = 0
    session.on('ping', () => pings++)
    takeLate()
    await eventually(() => (read.get('late') ?? 0) > 13 * MiB || Promise.reject(new Error('not yet')))
    t.ok(pings <= 1, `${pings} of them: the first follows what has come`)
    t.same(failures, [])
  },
)
