import t from 'tap'
import type { AgentId } from '../../../../src/call/call.ts'
import { kasCaller } from '../../../../src/call/caller.ts'
import type { Tunnel } from '../../../../src/kas/tunnels/tunnel.ts'
import { TunnelRegistry } from '../../../../src/kas/tunnels/tunnel-registry.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

const agentId = 42n as AgentId
const echo = '/test.Echo/Echo'
const request = (method: string) => ({ agentId, method, caller: kasCaller })
const forever = new AbortController().signal

/** A tunnel that only the test and the registry use. */
function fakeTunnel(methods: readonly string[] = [echo], { suspect = false, running = 0 } = {}) {
  const retired = new AbortController().signal
  const connection = { isSuspect: () => suspect, retired, running, roundTripMs: undefined, measure: () => undefined }
  const { promise: ended, resolve } = Promise.withResolvers<void>()
  const tunnel = {
    state: 'idle',
    methods: new Set(methods),
    connection,
    ended,
    take: () => {
      tunnel.state = 'taken'
    },
    giveBack: () => {
      tunnel.state = 'idle'
    },
    retire: () => {
      tunnel.state = 'ended'
      resolve()
    },
  }
  return tunnel as unknown as Tunnel
}

function withTunnels(...added: Tunnel[]): TunnelRegistry {
  const tunnels = new TunnelRegistry({ clock: new ManualClock() }, { maxWaitingPerAgent: 10 })
  for (const tunnel of added) tunnels.add(agentId, tunnel)
  return tunnels
}

t.test('the oldest idle tunnel that serves the method; one that is given back is the newest', async (t) => {
  const [other, first, second] = [fakeTunnel(['/a/b']), fakeTunnel(), fakeTunnel()]
  const tunnels = withTunnels(other, first, second)
  t.equal(tunnels.take(request(echo)), first)
  tunnels.giveBack(agentId, first)
  t.equal(tunnels.take(request(echo)), second)
  t.equal(tunnels.take(request(echo)), first)
  t.equal(tunnels.take(request(echo)), undefined)
  t.equal(tunnels.take(request('/a/b')), other)
})

t.test('tunnels of suspect connections are the last choice, the oldest first', async (t) => {
  const [one, two] = [fakeTunnel([echo], { suspect: true }), fakeTunnel([echo], { suspect: true })]
  const good = fakeTunnel()
  const tunnels = withTunnels(one, two, good)
  t.equal(tunnels.take(request(echo)), good)
  t.equal(tunnels.take(request(echo)), one)
  t.equal(tunnels.take(request(echo)), two)
})

t.test('of those who wait for what a tunnel serves, methods take turns', async (t) => {
  const tunnels = withTunnels()
  const got: string[] = []
  const waits = [echo, '/a/b', echo, '/a/b'].map(async (method, i) => {
    await tunnels.wait(request(method), forever)
    got.push(`${i} ${method}`)
  })
  const given: string[][] = [['/a/b'], [echo, '/a/b'], [echo, '/a/b'], [echo, '/a/b']]
  for (const methods of given) {
    tunnels.add(agentId, fakeTunnel(methods))
    await new Promise(setImmediate)
  }
  await Promise.all(waits)
  t.same(got, [`1 /a/b`, `0 ${echo}`, `3 /a/b`, `2 ${echo}`])
  t.same(tunnels.counts(agentId, echo), { idle: 0, waiting: 0, living: 4 })
})

t.test('who leaves waits no more, and makes room', async (t) => {
  const tunnels = withTunnels()
  const controller = new AbortController()
  const waits = Array.from({ length: 10 }, (_, i) =>
    tunnels.wait(request(i < 9 ? echo : '/a/b'), i === 0 ? controller.signal : forever),
  )
  await t.rejects(tunnels.wait(request('/c/d'), forever), { code: 'TOO_MANY_WAITING' }, 'and does not throw')
  controller.abort(new Error('left'))
  await t.rejects(waits[0] as Promise<Tunnel>, { message: 'left' })
  t.equal(tunnels.counts(agentId, echo).waiting, 9)
  const late = tunnels.wait(request('/c/d'), forever)
  const tunnel = fakeTunnel(['/c/d'])
  tunnels.add(agentId, tunnel)
  t.equal(await late, tunnel)
})

t.test('tunnels that end all at once are gone, and the agent with them', async (t) => {
  const added = Array.from({ length: 5000 }, () => fakeTunnel())
  const tunnels = withTunnels(...added)
  t.equal(tunnels.counts(agentId, echo).idle, 5000)
  for (const tunnel of added) (tunnel as unknown as { retire(): void }).retire()
  t.equal(tunnels.take(request(echo)), undefined, 'before the registry has heard of it')
  await new Promise(setImmediate)
  t.same(tunnels.counts(agentId, echo), { idle: 0, waiting: 0, living: 0 })
  t.same(tunnels.agentIds(), [])
})

t.test('what an agent serves here, busy tunnels included', async (t) => {
  const [one, other] = [fakeTunnel(['/a/b']), fakeTunnel()]
  const tunnels = withTunnels(one, other)
  t.equal(tunnels.take(request('/a/b')), one)
  t.equal(tunnels.serves(agentId, '/a/b'), true)
  t.equal(tunnels.serves(agentId, '/c/d'), false)
  t.equal(tunnels.serves(43n as AgentId, echo), false)
  one.retire()
  await one.ended
  t.equal(tunnels.serves(agentId, '/a/b'), false)
  t.equal(tunnels.serves(agentId, echo), true)
})
