import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import t from 'tap'
import { Newcomers } from '../../../../src/kas/servers/newcomers.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

const options = { maxSilentPerAddress: 2, maxSilent: 3, maxSilenceMs: 60_000 }

function start() {
  const clock = new ManualClock()
  const refused: string[] = []
  const newcomers = new Newcomers({ clock, refused: (reason) => refused.push(reason) }, options)
  let port = 0
  const arrive = (address: string, remotePort = ++port) => {
    const emitter = new EventEmitter()
    const socket = Object.assign(emitter, {
      remoteAddress: address,
      remotePort,
      destroyed: false,
      destroy: () => {
        socket.destroyed = true
        emitter.emit('close')
      },
    })
    newcomers.arrived(socket as unknown as Socket)
    return { socket, name: `${address}:${remotePort}` }
  }
  return { clock, refused, newcomers, arrive }
}

t.test('of one address, and of all, the longest silent makes room', async (t) => {
  const { refused, arrive } = start()
  const [a1, a2, a3] = [arrive('a'), arrive('a'), arrive('a')]
  t.same(
    [a1, a2, a3].map(({ socket }) => socket.destroyed),
    [true, false, false],
  )
  const [b1, c1] = [arrive('b'), arrive('c')]
  t.same(
    [a2, a3, b1, c1].map(({ socket }) => socket.destroyed),
    [true, false, false, false],
  )
  a3.socket.destroy()
  const d1 = arrive('d')
  t.same(
    [b1, c1, d1].map(({ socket }) => socket.destroyed),
    [false, false, false],
    'one had left',
  )
  t.same(refused, ['too_many_connections', 'too_many_connections'])
})

t.test('one that is asked about is not silent, one that is let in is no newcomer', async (t) => {
  const { newcomers, arrive, clock, refused } = start()
  const [asked, agent] = [arrive('a'), arrive('a')]
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const calls = [first, second].map(({ promise }) => newcomers.admit(asked.name, () => promise))
  t.equal(await newcomers.admit(agent.name, async () => 'somebody'), 'somebody')
  for (let i = 0; i < 5; i++) arrive('a')
  const destroyed = () => [asked, agent].map(({ socket }) => socket.destroyed)
  t.same(destroyed(), [false, false])
  first.reject(new Error('nobody'))
  await t.rejects(calls[0] as Promise<void>, { message: 'nobody' })
  await t.rejects(newcomers.admit(agent.name, () => Promise.reject(new Error('nobody'))))
  clock.advance(options.maxSilenceMs)
  newcomers.check()
  t.same(destroyed(), [false, false], 'a call of it still waits')
  second.reject(new Error('nobody'))
  await t.rejects(calls[1] as Promise<void>)
  newcomers.check()
  t.same(destroyed(), [false, false], 'its silence begins')
  clock.advance(options.maxSilenceMs)
  newcomers.check()
  t.same(destroyed(), [true, false])
  t.equal(refused.filter((reason) => reason === 'too_slow').length, 3)
})

t.test('one that leaves while it is asked about is forgotten, also where another comes from its port', async (t) => {
  const { newcomers, arrive, clock, refused } = start()
  const left = arrive('a')
  const asked = Promise.withResolvers<void>()
  const call = newcomers.admit(left.name, () => asked.promise)
  left.socket.destroy()
  const next = arrive('a', left.socket.remotePort)
  asked.resolve()
  await call
  clock.advance(options.maxSilenceMs)
  newcomers.check()
  t.equal(next.socket.destroyed, true, 'nobody was let in by it')
  t.same(refused, ['too_slow'])
})

t.test('what has no address is left alone', async (t) => {
  const { newcomers, clock, refused } = start()
  for (let i = 0; i < 5; i++) newcomers.arrived(new EventEmitter() as unknown as Socket)
  clock.advance(2 * options.maxSilenceMs)
  newcomers.check()
  t.same(refused, [])
})
