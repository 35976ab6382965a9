import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import { mock } from 'node:test'
import type { Server } from 'node:tls'
import t from 'tap'
import { type AddressOf, beginInTurns, restMs } from '../../../src/lib/tls-handshakes.ts'

mock.timers.enable({ apis: ['setTimeout'] })
t.teardown(() => mock.timers.reset())
const turn = () => mock.timers.tick(restMs)

/** A server whose connections are names: what has begun. */
function start(firstBytesMs = 60_000, addressOf?: AddressOf) {
  const server = new EventEmitter()
  const begun: string[] = []
  server.on('connection', ({ name }: { name: string }) => begun.push(name))
  beginInTurns(server as Server, firstBytesMs, addressOf)
  const arrive = (name: string) => {
    const socket = Object.assign(new EventEmitter(), {
      name,
      remoteAddress: '127.0.0.1',
      readableLength: 0,
      destroyed: false,
      destroy: () => {
        socket.destroyed = true
        socket.emit('close')
      },
    })
    server.emit('connection', socket as unknown as Socket)
    const speak = (readableLength = 1) => {
      socket.readableLength = readableLength
      socket.emit('readable')
    }
    return { socket, speak }
  }
  return { server, begun, arrive }
}

t.test('those that have spoken begin, a few after each rest; the others take no turn', async (t) => {
  const { begun, arrive } = start()
  const all = ['1', '2', '3', '4', '5', '6'].map(arrive)
  const [first, second, third, ...rest] = all
  t.same(begun, [])
  for (const { speak } of rest) speak()
  t.same(begun, ['4', '5'])
  third?.speak()
  second?.speak()
  mock.timers.tick(restMs - 1)
  t.same(begun, ['4', '5'])
  mock.timers.tick(1)
  t.same(begun, ['4', '5', '6', '3'])
  turn()
  t.same(begun, ['4', '5', '6', '3', '2'])
  first?.socket.destroy()
  second?.socket.emit('close')
})

t.test('addresses take turns as they are believed, whoever has connected', async (t) => {
  const { begun, arrive } = start(undefined, (socket) => (socket as unknown as { name: string }).name.slice(0, 1))
  for (const name of ['a1', 'a2', 'a3', 'a4', 'a5', 'b1']) arrive(name).speak()
  turn()
  t.same(begun, ['a1', 'a2', 'a3', 'b1'])
})

t.test('a connection that ends while it waits takes no turn from the others', async (t) => {
  const { begun, arrive } = start()
  const all = ['1', '2', '3', '4', '5', '6'].map(arrive)
  for (const { speak } of all) speak()
  t.same(begun, ['1', '2'])
  all[2]?.socket.emit('error', new Error('read ECONNRESET'))
  all[2]?.socket.destroy()
  turn()
  t.same(begun, ['1', '2', '4', '5'])
  turn()
  t.same(begun, ['1', '2', '4', '5', '6'])
})

t.test('one that ends without a word is closed, one that stays without a word is told', async (t) => {
  const { server, begun, arrive } = start(10)
  const told = new Promise<[NodeJS.ErrnoException, unknown]>((resolve) => {
    server.on('tlsClientError', (error, socket) => resolve([error, socket]))
  })
  const [left, silent] = [arrive('left'), arrive('silent')]
  left.speak(0)
  t.equal(left.socket.destroyed, true)
  mock.timers.tick(10)
  const [{ code }, socket] = await told
  t.equal(code, 'ERR_TLS_HANDSHAKE_TIMEOUT')
  t.equal(socket, silent.socket)
  t.same(begun, [])
})
