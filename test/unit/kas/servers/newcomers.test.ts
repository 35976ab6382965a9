import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import t from 'tap'
import { Newcomers } from '../../../../src/kas/servers/newcomers.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

const options = { maxSilentPerAddress: 2, maxSilent: 3, graceMs: 2000, maxSilenceMs: 60_000 }

function start() {
  const clock = new ManualClock()
  const refused: string[] = []
  const newcomers = new Newcomers({ now: () => clock.now(), refused: (reason) => refused.push(reason) }, options)
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
  const { refused, arrive: comes, clock } = start()
  const arrive = (address: string) => {
    clock.advance(options.graceMs)
    return comes(address)
  }
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

t.test('many at once: those that came first are let in, nobody makes room so soon', async (t) => {
  const { refused, arrive, newcomers, clock } = start()
  const herd = Array.from({ length: 5 }, () => arrive('a'))
  const destroyed = () => herd.map(({ socket }) => socket.destroyed)
  t.same(destroyed(), [false, false, true, true, true])
  t.same(refused, Array(3).fill('too_many_connections'))
  for (const { name } of herd.slice(0, 2)) await newcomers.admit(name, async () => undefined)
  herd.push(arrive('a'), arrive('a'))
  clock.advance(options.graceMs - 1)
  herd.push(arrive('a'))
  t.same(destroyed().slice(5), [false, false, true])
  clock.advance(1)
  herd.push(arrive('a'))
  t.same(destroyed().slice(5), [true, false, true, false], 'it had its time')
})

t.test('who is refused again and again keeps no place by it', async (t) => {
  const { arrive, newcomers, clock } = start()
  const strangers = [arrive('a'), arrive('a')]
  for (let i = 0; i < 4; i++) {
    clock.advance(options.graceMs / 4)
    for (const { name } of strangers) await t.rejects(newcomers.admit(name, () => Promise.reject(new Error('nobody'))))
  }
  const next = arrive('a')
  t.same(
    [...strangers, next].map(({ socket }) => socket.destroyed),
    [true, false, false],
  )
})

t.test('those that are refused all at once are no more than those that come', async (t) => {
  const { arrive, newcomers, refused } = start()
  const asked = Promise.withResolvers<void>()
  const allBegun = Promise.withResolvers<void>()
  const asking: Promise<void>[] = []
  const all = []
  let begun = 0
  for (let i = 0; i < 4; i++) {
    const pair = [arrive('a'), arrive('a')]
    all.push(...pair)
    const ask = () => {
      if (++begun === 8) allBegun.resolve()
      return asked.promise
    }
    for (const { name } of pair) asking.push(newcomers.admit(name, ask))
  }
  t.same(refused, [], 'nobody is silent')
  await new Promise<void>((resolve) => process.nextTick(resolve))
  t.equal(begun, 4, 'a few at a time')
  await allBegun.promise
  asked.reject(new Error('nobody'))
  t.same(new Set((await Promise.allSettled(asking)).map(({ status }) => status)), new Set(['rejected']))
  t.equal(all.filter(({ socket }) => !socket.destroyed).length, options.maxSilentPerAddress)
  t.same(refused, Array(6).fill('too_many_connections'))
})

t.test('of IPv6 a network counts as one address', async (t) => {
  const { arrive, refused } = start()
  const there = ['2001:db8:1:2::1', '2001:db8:1:2::2', '2001:db8:1:2:3::3', '2001:db8:1:3::1'].map((address) =>
    arrive(address),
  )
  t.same(
    there.map(({ socket }) => socket.destroyed),
    [false, false, true, false],
  )
  t.same(refused, ['too_many_connections'])
})

t.test('one that is being checked is not silent, one that is let in is no newcomer', async (t) => {
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
  newcomers.closeSilent()
  t.same(destroyed(), [false, false], 'a call of it still waits')
  second.reject(new Error('nobody'))
  await t.rejects(calls[1] as Promise<void>)
  newcomers.closeSilent()
  t.same(destroyed(), [false, false], 'its silence begins')
  clock.advance(options.maxSilenceMs)
  newcomers.closeSilent()
  t.same(destroyed(), [true, false])
  t.equal(refused.filter((reason) => reason === 'too_slow').length, 3)
})

t.test('one that leaves while it is being checked is forgotten, also where another comes from its port', async (t) => {
  const { newcomers, arrive, clock, refused } = start()
  const left = arrive('a')
  const asked = Promise.withResolvers<void>()
  const call = newcomers.admit(left.name, () => asked.promise)
  left.socket.destroy()
  const next = arrive('a', left.socket.remotePort)
  asked.resolve()
  await call
  clock.advance(options.maxSilenceMs)
  newcomers.closeSilent()
  t.equal(next.socket.destroyed, true, 'nobody was let in by it')
  t.same(refused, ['too_slow'])
})

t.test('what has no address is left alone', async (t) => {
  const { newcomers, clock, refused } = start()
  for (let i = 0; i < 5; i++) newcomers.arrived(new EventEmitter() as unknown as Socket)
  clock.advance(2 * options.maxSilenceMs)
  newcomers.closeSilent()
  t.same(refused, [])
})
