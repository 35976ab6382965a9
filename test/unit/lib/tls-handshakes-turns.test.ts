import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import { mock } from 'node:test'
import type { Server } from 'node:tls'
import t from 'tap'
import type { WaitingHandshake } from '../../../src/lib/handshake-turns.ts'
import { beginInTurns, type HandshakeSources } from '../../../src/lib/tls-handshakes.ts'

mock.timers.enable({ apis: ['setTimeout'] })
t.teardown(() => mock.timers.reset())

/** A server whose connections are names. It records waiting and begun handshakes. */
function start(firstBytesMs = 60_000, sources?: HandshakeSources) {
  const server = new EventEmitter()
  const begun: string[] = []
  const waiting = new Set<WaitingHandshake>()
  server.on('connection', ({ name }: { name: string }) => begun.push(name))
  const enter = (handshake: WaitingHandshake) => {
    waiting.add(handshake)
    return () => void waiting.delete(handshake)
  }
  beginInTurns(server as Server, firstBytesMs, { enter }, sources)
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
  const beginAll = () => {
    for (const handshake of waiting) {
      waiting.delete(handshake)
      handshake.begin()
    }
  }
  return { server, begun, waiting, arrive, beginAll }
}

t.test('those that have spoken wait for a turn; the others take none', async (t) => {
  const { begun, waiting, arrive, beginAll } = start()
  const [first, second] = ['1', '2', '3'].map(arrive)
  second?.speak()
  t.equal(waiting.size, 1)
  t.same(begun, [])
  beginAll()
  t.same(begun, ['2'])
  first?.socket.destroy()
})

t.test('turns go by addresses as they are believed, whoever has connected', async (t) => {
  const address = (socket: unknown) => (socket as { name: string }).name
  const { waiting, arrive } = start(undefined, { addressOf: address })
  arrive('192.0.2.7').speak()
  arrive('2001:db8:1:2::3').speak()
  t.match(
    [...waiting],
    [
      { source: '192.0.2.7', network: '192.0.2' },
      { source: '2001:db8:1:2', network: '2001:db8:1' },
    ],
  )
})

t.test(
  'one that waits for its turn is told so before it enters, and that its turn has come before TLS begins',
  async (t) => {
    const seen: string[] = []
    const waits = (socket: unknown) => {
      const { name } = socket as { name: string }
      seen.push(`${name} waits`)
      return () => void seen.push(`${name} has its turn`)
    }
    const { server, arrive, beginAll } = start(undefined, { waits })
    server.on('connection', () => seen.push('comes'))
    const [first, second] = ['1', '2'].map(arrive)
    first?.speak()
    second?.speak()
    second?.socket.destroy()
    beginAll()
    t.same(seen, ['comes', 'comes', '1 waits', '2 waits', '1 has its turn'])
  },
)

t.test('a connection that ends while it waits takes no turn; one that has no place is closed', async (t) => {
  const { begun, waiting, arrive, beginAll } = start()
  const [left, lost, stays] = ['left', 'lost', 'stays'].map((name) => {
    const arrived = arrive(name)
    arrived.speak()
    return arrived
  })
  left?.socket.emit('error', new Error('read ECONNRESET'))
  left?.socket.destroy()
  const [next] = waiting
  next?.lost()
  t.equal(lost?.socket.destroyed, true)
  beginAll()
  t.same(begun, ['stays'])
  t.equal(stays?.socket.destroyed, false)
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
