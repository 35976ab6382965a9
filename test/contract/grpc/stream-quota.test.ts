import { once } from 'node:events'
import type { ClientHttp2Session } from 'node:http2'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { type ServerSession, serveSession } from '../../../src/proto/grpc/server-session.ts'
import { rawCall, rawClient } from './raw-peers.ts'

/** The bound of a connection's streams moves up and down while its peer is slow, or has many streams in flight. */

interface Served {
  readonly port: number
  readonly session: Promise<ServerSession>
  readonly errors: unknown[]
}

async function serve(t: Test): Promise<Served> {
  const session = Promise.withResolvers<ServerSession>()
  const errors: unknown[] = []
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    const events = { sessionError: (error: unknown) => errors.push(error) }
    const served = serveSession(socket, () => async () => undefined, { limits: { firstStreams: 32 }, events })
    t.teardown(() => served.destroy())
    session.resolve(served)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return { port: (server.address() as AddressInfo).port, session: session.promise, errors }
}

const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
const settings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0])

/** Dials a peer that speaks HTTP/2 and acknowledges nothing. */
async function dialSilent(t: Test, port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1' })
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  socket.resume().write(Buffer.concat([preface, settings]))
  return socket
}

t.test(
  'a side that is slow to acknowledge is not cut, however often its streams are admitted and refused',
  async (t) => {
    const { port, session, errors } = await serve(t)
    await dialSilent(t, port)
    const { quota, destroyed } = await session
    t.equal(destroyed, false)
    for (let i = 1; i <= 200; i++) {
      quota.admitted(20 * i)
      quota.refused(10)
    }
    await new Promise(setImmediate)
    t.same(errors, [])
    t.equal((await session).destroyed, false)
  },
)

/** @returns true if the other side accepts the stream */
async function open(client: ClientHttp2Session): Promise<boolean> {
  const { rstCode } = await rawCall(client, { ':path': '/a.B/C' }, Buffer.alloc(0))
  return rstCode !== refusedStream
}

const refusedStream = 7

t.test(
  'streams that cross a lower bound on their way are refused; it does not fall so often that it ends',
  async (t) => {
    const { port, session, errors } = await serve(t)
    const client = await rawClient(t, port)
    const { quota } = await session
    let refused = 0
    for (let round = 0; round < 40; round++) {
      quota.admitted(100)
      await (await session).ping() // both sides now know the bound
      quota.refused(1)
      const taken = await Promise.all(Array.from({ length: 80 }, () => open(client)))
      refused += taken.filter((was) => !was).length
      if (client.destroyed) break
    }
    t.same(errors, [])
    t.equal((await session).destroyed, false)
    t.ok(refused < 100, `${refused} were refused`)
    t.ok(await open(client), 'it takes streams')
  },
)
