import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { Acceptors } from '../../../src/lib/acceptors.ts'

const skip = process.platform === 'linux' ? false : 'needs SO_REUSEPORT of Linux'

async function start(t: Test, port = 0) {
  const server = createServer({ noDelay: true })
  const sockets: Socket[] = []
  server.on('connection', (socket) => sockets.push(socket))
  const acceptors = new Acceptors(server)
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    return server.listening ? acceptors.close() : undefined
  })
  await acceptors.listen({ host: '127.0.0.1', port })
  return { server, sockets, acceptors, port: (server.address() as AddressInfo).port }
}

async function dial(t: Test, port: number, count: number): Promise<Socket[]> {
  const sockets = Array.from({ length: count }, () => connect(port, '127.0.0.1'))
  t.teardown(() => sockets.map((socket) => socket.destroy()))
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  return sockets
}

const turn = () => new Promise(setImmediate)

t.test('connections come to the one server, several in a turn of the event loop', { skip }, async (t) => {
  const { sockets, port } = await start(t)
  const count = 64
  const dialled = Array.from({ length: count }, () => connect(port, '127.0.0.1'))
  t.teardown(() => dialled.map((socket) => socket.destroy()))
  const until = performance.now() + 50
  while (performance.now() < until); // all of them wait in the system's queues
  let most = 0
  for (let before = 0; sockets.length < count; before = sockets.length) {
    await turn()
    most = Math.max(most, sockets.length - before)
  }
  t.ok(most >= 4, `${most} in a turn`)
})

t.test('an address that another server has is refused, also if that shares it with itself', { skip }, async (t) => {
  const { port } = await start(t)
  await t.rejects(start(t, port), { code: 'EADDRINUSE', port })
  const other = createServer()
  await once(other.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => other.close())
  const { port: taken } = other.address() as AddressInfo
  await t.rejects(start(t, taken), { code: 'EADDRINUSE' })
})

t.test('closed, no socket accepts any more, and connections go on until they end', { skip }, async (t) => {
  const { sockets, acceptors, port } = await start(t)
  const dialled = await dial(t, port, 20)
  while (sockets.length < 20) await turn()
  let isClosed = false
  const closed = acceptors.close().then(() => {
    isClosed = true
  })
  for (let i = 0; i < 20; i++) {
    const late = connect(port, '127.0.0.1')
    await t.rejects(once(late, 'connect'), { code: 'ECONNREFUSED' })
  }
  const received = dialled.map(async (socket) => await once(socket, 'data'))
  for (const socket of sockets) socket.write('x')
  await Promise.all(received)
  t.notOk(isClosed)
  for (const socket of sockets) socket.destroy()
  await closed
})

t.test('a port that was used is free once it is closed', { skip }, async (t) => {
  const { acceptors, port } = await start(t)
  await acceptors.close()
  const { port: again } = await start(t, port)
  t.equal(again, port)
})

t.test('a Unix socket is one', async (t) => {
  const server = createServer()
  const acceptors = new Acceptors(server)
  t.chdir(t.testdir())
  await acceptors.listen({ path: 'socket' })
  t.equal(server.address(), 'socket')
  await acceptors.close()
})
