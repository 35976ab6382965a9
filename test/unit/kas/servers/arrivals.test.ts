import type { Socket } from 'node:net'
import t from 'tap'
import { ClientAddresses } from '../../../../src/kas/servers/addresses/client-addresses.ts'
import { Arrivals } from '../../../../src/kas/servers/arrivals.ts'
import type { UnauthenticatedOptions } from '../../../../src/kas/servers/unauthenticated-connections.ts'
import { arrivingSocket } from '../../../support/arriving-socket.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

const front = '10.0.0.5'
const options = { maxIdlePerAddress: 2, maxIdle: 4, maxChecked: 3, graceMs: 2000, maxSilenceMs: 60_000 }
const never = () => new Promise<never>(() => undefined)
const open = new AbortController().signal

function start(overrides: Partial<UnauthenticatedOptions> = {}) {
  const clock = new ManualClock()
  const refused: string[] = []
  const addresses = new ClientAddresses({ trustedProxies: [front], proxyProtocol: false })
  const arrivals = new Arrivals(
    { addresses, now: () => clock.now(), refused: (reason) => refused.push(reason) },
    { ...options, ...overrides },
    { maxInactive: 3, graceMs: 2000, maxSilenceMs: 60_000 },
  )
  let port = 0
  const arrive = (address = front, remotePort = ++port) => {
    const socket = arrivingSocket(address, remotePort)
    arrivals.arrived(socket as unknown as Socket)
    return { socket, remote: `${address}:${remotePort}` }
  }
  const callOf = (address: string, { remote } = arrive()) => ({ remote, isFront: true, address })
  return { clock, refused, arrivals, arrive, callOf }
}

t.test('silent connections of fronts have a bound of their own', async (t) => {
  const { arrive, refused, clock, arrivals } = start()
  const of = Array.from({ length: 4 }, () => arrive())
  t.same(
    of.map(({ socket }) => socket.destroyed),
    [false, false, false, true],
    'no room is made so soon',
  )
  const others = Array.from({ length: 2 }, () => arrive('192.0.2.7'))
  t.same(
    others.map(({ socket }) => socket.destroyed),
    [false, false],
  )
  clock.advance(2000)
  arrive()
  t.ok(of[0]?.socket.destroyed, 'the longest silent makes room')
  t.same(refused, ['too_many_connections', 'too_many_connections'])
  clock.advance(59_000)
  arrivals.closeInactive()
  t.same(
    of.map(({ socket }) => socket.destroyed),
    [true, true, true, true],
  )
  t.equal(refused.filter((reason) => reason === 'too_slow').length, 4, 'two others among them')
})

t.test('one whose end is heard after the next has come from its port takes no place', async (t) => {
  const { arrive, refused } = start()
  const before = arrive(front, 9000)
  arrive(front, 9000)
  before.socket.emit('close')
  const others = Array.from({ length: 2 }, () => arrive())
  t.same(
    others.map(({ socket }) => socket.destroyed),
    [false, false],
  )
  t.same(refused, [])
})

t.test('a connection with a call is not silent; once somebody was let in it counts no more', async (t) => {
  const { arrive, arrivals, callOf } = start()
  const [first, second] = [arrive(), arrive()]
  void arrivals.admit(callOf('192.0.2.7', first), never, open)
  await arrivals.admit(callOf('192.0.2.8', second), async () => 'in', open)
  const more = Array.from({ length: 3 }, () => arrive())
  t.same(
    [first, second, ...more].map(({ socket }) => socket.destroyed),
    Array(5).fill(false),
  )
  await t.rejects(
    arrivals.admit(callOf('192.0.2.7', more[0]), () => Promise.reject(new Error('no')), open),
    { message: 'no' },
  )
  t.ok(arrive().socket.destroyed, 'who was refused is silent again')
})

t.test('calls of fronts that are checked have a bound of their own: they are no connections', async (t) => {
  const { arrive, arrivals, callOf } = start({ maxCheckedAlone: 6 })
  const connections = ['192.0.2.1', '192.0.2.2', '192.0.2.3'].map((address) => arrive(address))
  for (const { remote } of connections)
    void arrivals.admit({ remote, isFront: false, address: remote }, never, open).catch(() => undefined)
  const shared = arrive()
  const calls = Array.from({ length: 6 }, (_, i) => arrivals.admit(callOf(`198.51.100.${i}`, shared), never, open))
  const beyond = arrivals.admit(callOf('198.51.100.0', shared), never, open)
  await t.rejects(Promise.race([...calls, beyond]), { code: 'CREDENTIAL_NOT_CHECKED' })
  t.same(
    connections.map(({ socket }) => socket.destroyed),
    [false, false, false],
  )
  for (const call of [...calls, beyond]) call.catch(() => undefined)
})

t.test('calls count as their clients\u2019, also where another was let in before', async (t) => {
  const { arrive, arrivals, callOf } = start()
  const shared = arrive()
  await arrivals.admit(callOf('192.0.2.7', shared), async () => undefined, open)
  const stranger = Array.from({ length: 3 }, () => {
    const aborted = Promise.withResolvers<unknown>()
    const check = (signal: AbortSignal) => {
      signal.addEventListener('abort', () => aborted.resolve(signal.reason))
      return never()
    }
    return { call: arrivals.admit(callOf('198.51.100.1', shared), check, open), aborted: aborted.promise }
  })
  const lost = Promise.race(stranger.map(({ call }) => call))
  const good = arrivals.admit(callOf('192.0.2.7', shared), async () => 'in', open)
  await t.rejects(lost, { code: 'CREDENTIAL_NOT_CHECKED' }, 'who has most makes room')
  t.match(
    await Promise.race(stranger.map(({ aborted }) => aborted)),
    { code: 'CREDENTIAL_NOT_CHECKED' },
    'and is asked about no more',
  )
  t.equal(await good, 'in')
  t.notOk(shared.socket.destroyed, 'the connection carries others')
})

t.test('a connection that turns out to be for one client counts as his', async (t) => {
  const { arrive, arrivals } = start()
  const of = Array.from({ length: 3 }, () => arrive())
  for (const { socket } of of) arrivals.identified(socket as unknown as Socket, '192.0.2.7')
  t.same(
    of.map(({ socket }) => socket.destroyed),
    [false, false, true],
    'two of one address',
  )
  t.notOk(arrive().socket.destroyed, 'and the front has its own')
})

t.test('a call that is given up waits no longer', async (t) => {
  const { arrivals, callOf } = start()
  const controller = new AbortController()
  const call = arrivals.admit(callOf('192.0.2.7'), never, controller.signal)
  controller.abort(new Error('left'))
  await t.rejects(call, { message: 'left' })
})
