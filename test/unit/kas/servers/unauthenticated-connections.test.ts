import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import t from 'tap'
import {
  defaultUnauthenticated,
  maxWaitingPerConnection,
  UnauthenticatedConnections,
  type UnauthenticatedOptions,
} from '../../../../src/kas/servers/unauthenticated-connections.ts'
import { arrivingSocket } from '../../../support/arriving-socket.ts'
import { ManualClock, settle } from '../../../support/manual-clock.ts'

const options = { maxIdlePerAddress: 2, maxIdle: 3, maxChecked: 10, graceMs: 2000, maxSilenceMs: 60_000 }
const checksPerTurn = 4

function start(overrides: Partial<UnauthenticatedOptions> = {}) {
  const clock = new ManualClock()
  const refused: string[] = []
  const unauthenticated = new UnauthenticatedConnections(
    { now: () => clock.now(), refused: (reason) => refused.push(reason) },
    { ...options, ...overrides },
  )
  let port = 0
  const arrive = (address: string, remotePort = ++port) => {
    const socket = arrivingSocket(address, remotePort)
    unauthenticated.arrived(socket as unknown as Socket)
    return { socket, name: `${address}:${remotePort}` }
  }
  const admit = <T>(name: string, check: () => Promise<T>, signal = new AbortController().signal) =>
    unauthenticated.admit(name, check, signal)
  /** Admits as many connections as one turn of the event loop checks. Later ones wait for the next turn. */
  const spendTurn = () =>
    Promise.all(Array.from({ length: checksPerTurn }, () => admit(arrive('busy').name, async () => undefined)))
  return { clock, refused, unauthenticated, arrive, admit, spendTurn }
}

const never = () => new Promise<never>(() => undefined)

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
  const { refused, arrive, admit, clock } = start()
  const herd = Array.from({ length: 5 }, () => arrive('a'))
  const destroyed = () => herd.map(({ socket }) => socket.destroyed)
  t.same(destroyed(), [false, false, true, true, true])
  t.same(refused, Array(3).fill('too_many_connections'))
  for (const { name } of herd.slice(0, 2)) await admit(name, async () => undefined)
  herd.push(arrive('a'), arrive('a'))
  clock.advance(options.graceMs - 1)
  herd.push(arrive('a'))
  t.same(destroyed().slice(5), [false, false, true])
  clock.advance(1)
  herd.push(arrive('a'))
  t.same(destroyed().slice(5), [true, false, true, false], 'it had its time')
})

t.test('who is refused again and again keeps no place by it', async (t) => {
  const { arrive, admit, clock } = start()
  const strangers = [arrive('a'), arrive('a')]
  for (let i = 0; i < 4; i++) {
    clock.advance(options.graceMs / 4)
    for (const { name } of strangers) await t.rejects(admit(name, () => Promise.reject(new Error('nobody'))))
  }
  const next = arrive('a')
  t.same(
    [...strangers, next].map(({ socket }) => socket.destroyed),
    [true, false, false],
  )
})

t.test('those that wait for a turn count, and the silent ones make room for them', async (t) => {
  const { arrive, admit, refused, unauthenticated, clock, spendTurn } = start()
  const busy = spendTurn()
  const [waits, silent] = [arrive('a'), arrive('a')]
  const answer = admit(waits.name, async () => 'somebody')
  clock.advance(options.maxSilenceMs / 2)
  const third = arrive('a')
  t.same(
    [waits, silent, third].map(({ socket }) => socket.destroyed),
    [false, true, false],
  )
  t.same(refused, ['too_many_connections'])
  const other = admit(third.name, async () => 'another')
  t.equal(arrive('a').socket.destroyed, true, 'both have called')
  clock.advance(options.maxSilenceMs)
  unauthenticated.closeInactive()
  t.equal(waits.socket.destroyed, false, 'to wait for a turn is no silence')
  await busy
  t.same(await Promise.all([answer, other]), ['somebody', 'another'])
  const next = [arrive('a'), arrive('a')]
  t.same(
    next.map(({ socket }) => socket.destroyed),
    [false, false],
    'there is room again',
  )
})

t.test('where all wait, the latest of the address that has most makes room for one that has less', async (t) => {
  const { arrive, admit, refused, spendTurn } = start()
  const busy = spendTurn()
  const waiting = ['a', 'a', 'b'].map((address) => {
    const connection = arrive(address)
    return { ...connection, answer: admit(connection.name, async () => connection.name) }
  })
  const another = arrive('c')
  t.same(
    [...waiting, another].map(({ socket }) => socket.destroyed),
    [false, true, false, false],
  )
  t.equal(arrive('b').socket.destroyed, true, 'that has as many as others')
  t.same(refused, ['too_many_connections', 'too_many_connections'])
  await busy
  const answers = await Promise.allSettled(waiting.map(({ answer }) => answer))
  t.match(answers, [{ value: waiting[0]?.name }, { reason: { code: 'CREDENTIAL_NOT_CHECKED' } }, { value: /^b/ }])
})

t.test('a call that ends, or whose connection does, waits for no turn', async (t) => {
  const { arrive, admit, spendTurn } = start()
  const busy = spendTurn()
  const [reset, left, stays] = [arrive('a'), arrive('b'), arrive('c')]
  const call = new AbortController()
  const checked: string[] = []
  const check = (name: string) => async () => void checked.push(name)
  const ended = [
    admit(reset.name, check('reset'), call.signal),
    admit(left.name, check('left')),
    admit(reset.name, check('kept')),
    admit(stays.name, check('stays')),
  ]
  call.abort(new Error('reset'))
  left.socket.destroy()
  t.match(await Promise.allSettled(ended), [
    { reason: { message: 'reset' } },
    { reason: { code: 'CANCELLED' } },
    { status: 'fulfilled' },
    { status: 'fulfilled' },
  ])
  t.same(checked, ['kept', 'stays'])
  await t.rejects(admit(arrive('d').name, check('late'), call.signal), { message: 'reset' })
  await busy
})

t.test('a connection whose last waiting calls are cancelled is silent again', async (t) => {
  const { arrive, admit, unauthenticated, clock, spendTurn } = start()
  const busy = spendTurn()
  const { socket, name } = arrive('a')
  const cancelled = new AbortController()
  let checked = 0
  const check = () => Promise.reject(new Error(`nobody ${++checked}`))
  const calls = Promise.allSettled(
    Array.from({ length: checksPerTurn + 2 }, () => admit(name, check, cancelled.signal)),
  )
  await settle()
  cancelled.abort(new Error('left'))
  await Promise.all([busy, calls])
  t.equal(checked, checksPerTurn)
  await settle()
  clock.advance(options.maxSilenceMs)
  unauthenticated.closeInactive()
  t.equal(socket.destroyed, true)
})

t.test('of one address connections take turns, with one call each', async (t) => {
  const { arrive, admit, spendTurn } = start()
  const busy = spendTurn()
  const [greedy, modest] = [arrive('a'), arrive('a')]
  const checked: string[] = []
  const ask = (name: string, what: string) => admit(name, async () => void checked.push(what))
  const calls = Array.from({ length: 6 }, (_, i) => ask(greedy.name, `greedy ${i}`))
  calls.push(ask(modest.name, 'modest'))
  await settle()
  t.same(checked, ['greedy 0', 'modest', 'greedy 1', 'greedy 2'])
  await Promise.all([busy, ...calls])
})

t.test('of one connection only so many calls are checked at once', async (t) => {
  const { arrive, admit, unauthenticated, clock } = start({ maxCheckedPerConnection: 1 })
  const { name, socket } = arrive('a')
  const refusals: ((reason: Error) => void)[] = []
  const check = () => new Promise<string>((_, reject) => refusals.push(reject))
  const calls = [admit(name, check), admit(name, check), admit(name, async () => 'somebody'), admit(name, check)]
  for (const [i, call] of calls.slice(0, 2).entries()) {
    await settle()
    t.equal(refusals.length, i + 1)
    clock.advance(options.maxSilenceMs)
    unauthenticated.closeInactive()
    t.equal(socket.destroyed, false)
    refusals[i]?.(new Error('nobody'))
    await t.rejects(call, { message: 'nobody' })
  }
  t.equal(await calls[2], 'somebody')
  await settle()
  t.equal(refusals.length, 3, 'also once it is let in')
  refusals[2]?.(new Error('another'))
  await t.rejects(calls[3] as Promise<string>, { message: 'another' })
})

t.test('one that leaves while others of it wait for a check takes them along', async (t) => {
  const { arrive, admit } = start({ maxCheckedPerConnection: 1 })
  const { name, socket } = arrive('a')
  void admit(name, never)
  const waiting = admit(name, async () => 'checked')
  await settle()
  socket.destroy()
  await t.rejects(waiting, { code: 'CANCELLED' })
})

t.test('on one connection only so many calls wait', async (t) => {
  const { arrive, admit, spendTurn } = start()
  const busy = spendTurn()
  const { name } = arrive('a')
  const calls = Array.from({ length: maxWaitingPerConnection }, () => admit(name, async () => 'checked'))
  await t.rejects(
    admit(name, async () => 'too many'),
    { code: 'CREDENTIAL_NOT_CHECKED' },
  )
  t.same(new Set(await Promise.all(calls)), new Set(['checked']))
  await busy
})

t.test('connections of which a call is being checked are bounded too, addresses share the places', async (t) => {
  const { arrive, admit, refused } = start({ maxChecked: 2 })
  const ask = (address: string) => {
    const connection = arrive(address)
    void admit(connection.name, never).catch(() => undefined)
    return connection.socket
  }
  const [first, second, third] = [ask('a'), ask('a'), ask('a')]
  t.same([first.destroyed, second.destroyed, third.destroyed], [false, false, true])
  const other = ask('b')
  t.same([first.destroyed, second.destroyed, other.destroyed], [false, true, false])
  t.same(refused, Array(2).fill('too_many_connections'))
})

t.test('those that are refused all at once are no more than those that come', async (t) => {
  const { arrive, admit, refused } = start()
  const asked = Promise.withResolvers<void>()
  const all = Array.from({ length: checksPerTurn }, () => arrive('a'))
  t.equal(all.filter(({ socket }) => socket.destroyed).length, 2)
  refused.length = 0
  const asking = []
  for (let i = 0; i < 4; i++) {
    const { name } = arrive('b')
    asking.push(admit(name, () => asked.promise))
  }
  t.same(refused, [], 'nobody is idle')
  asked.reject(new Error('nobody'))
  t.same(new Set((await Promise.allSettled(asking)).map(({ status }) => status)), new Set(['rejected']))
  t.same(refused, Array(3).fill('too_many_connections'), 'one has found room beside those of the other address')
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

t.test('one that is being checked is not silent, one that is let in does not count', async (t) => {
  const { unauthenticated, admit, arrive, clock, refused } = start()
  const [asked, agent] = [arrive('a'), arrive('a')]
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const calls = [first, second].map(({ promise }) => admit(asked.name, () => promise))
  t.equal(await admit(agent.name, async () => 'somebody'), 'somebody')
  for (let i = 0; i < 5; i++) arrive('a')
  const destroyed = () => [asked, agent].map(({ socket }) => socket.destroyed)
  t.same(destroyed(), [false, false])
  first.reject(new Error('nobody'))
  await t.rejects(calls[0] as Promise<void>, { message: 'nobody' })
  await t.rejects(admit(agent.name, () => Promise.reject(new Error('nobody'))))
  clock.advance(options.maxSilenceMs)
  unauthenticated.closeInactive()
  t.same(destroyed(), [false, false], 'a call of it still waits')
  second.reject(new Error('nobody'))
  await t.rejects(calls[1] as Promise<void>)
  unauthenticated.closeInactive()
  t.same(destroyed(), [false, false], 'its silence begins')
  clock.advance(options.maxSilenceMs)
  unauthenticated.closeInactive()
  t.same(destroyed(), [true, false])
  t.equal(refused.filter((reason) => reason === 'too_slow').length, 3)
})

t.test('one that leaves while it is being checked is forgotten, also where another comes from its port', async (t) => {
  const { unauthenticated, admit, arrive, clock, refused } = start()
  const left = arrive('a')
  const asked = Promise.withResolvers<void>()
  const call = admit(left.name, () => asked.promise)
  left.socket.destroy()
  const next = arrive('a', left.socket.remotePort)
  asked.resolve()
  await call
  clock.advance(options.maxSilenceMs)
  unauthenticated.closeInactive()
  t.equal(next.socket.destroyed, true, 'nobody was let in by it')
  t.same(refused, ['too_slow'])
})

t.test('what has no address is left alone', async (t) => {
  const { unauthenticated, clock, refused } = start()
  for (let i = 0; i < 5; i++) unauthenticated.arrived(new EventEmitter() as unknown as Socket)
  clock.advance(2 * options.maxSilenceMs)
  unauthenticated.closeInactive()
  t.same(refused, [])
})

t.test('one that waits for its turn of TLS is not silent, and has its grace from that turn', async (t) => {
  const { unauthenticated, arrive, clock, refused } = start({ maxIdlePerAddress: 3 })
  const [waits, silent, other] = [arrive('a'), arrive('b'), arrive('b')]
  const hasTurn = unauthenticated.waitsForTls(waits.name)
  clock.advance(options.graceMs)
  const [c, d] = [arrive('c'), arrive('d')]
  const destroyed = () => [waits, silent, other, c, d].map(({ socket }) => socket.destroyed)
  t.same(destroyed(), [false, true, true, false, false], 'silent ones make room')
  clock.advance(options.maxSilenceMs)
  hasTurn()
  unauthenticated.closeInactive()
  t.same(destroyed(), [false, true, true, true, true])
  ;[arrive('e'), arrive('f')]
  clock.advance(options.graceMs - 1)
  const last = arrive('g')
  t.same([waits.socket.destroyed, last.socket.destroyed], [false, true], 'its grace began with its turn')
  t.equal(refused.length, 5)
})

t.test('strangers of 3,500 networks wait for TLS in all places: a network that has none gets one', async (t) => {
  const { unauthenticated, arrive, clock } = start(defaultUnauthenticated)
  const addressIn = (network: number) => `10.${network >> 8}.${network & 255}.1`
  const come = (address: string) => {
    const connection = arrive(address)
    if (!connection.socket.destroyed) unauthenticated.waitsForTls(connection.name)
    return connection.socket
  }
  const strangers = Array.from({ length: 7000 }, (_, i) => come(addressIn(i % 3500)))
  const waiting = () => strangers.filter(({ destroyed }) => !destroyed).length
  t.equal(waiting(), defaultUnauthenticated.maxIdle)
  clock.advance(2 * defaultUnauthenticated.graceMs)
  const newcomer = come('192.0.2.7')
  t.equal(newcomer.destroyed, false)
  t.equal(waiting(), defaultUnauthenticated.maxIdle - 1, 'one of the strangers made room')
  for (let i = 0; i < 1000; i++) strangers.push(come(addressIn(i)))
  t.equal(newcomer.destroyed, false, 'it keeps its place when the strangers come again')
})
