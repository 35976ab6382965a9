import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import { HomeHints } from '../../../../../src/kas/servers/agents/home-hints.ts'
import type { AgentConnection } from '../../../../../src/kas/tunnels/agent-connection.ts'
import type { Placement } from '../../../../../src/kas/tunnels/home-placement.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const agentId = 42n as AgentId

const restlessId = 43n as AgentId

/** Connections with one idle tunnel each, at a replica. All pods have the same home. */
async function start(count: number) {
  const clock = new ManualClock()
  let home = 'kas-0'
  let notify: (agentIds: ReadonlySet<AgentId> | 'all') => void = () => undefined
  const placement: Placement = {
    here: 'kas-0',
    peersServe: true,
    homeOf: () => ({ home: { name: home } }),
    onChange: (listener) => {
      notify = listener
      return () => undefined
    },
  }
  const hints = new HomeHints(
    { placement, clock },
    { pingIntervalMs: 5000, settleMs: 2000, spreadMs: 200, features: [] },
  )
  await hints.start()
  const closed = Promise.withResolvers<void>()
  const ended: number[] = []
  for (let i = 0; i < count; i++) {
    const connection = { session: { closed: closed.promise } } as unknown as AgentConnection
    hints.hints(connection, agentId, `pod-${i}`)
    hints.idle(connection, agentId, () => ended.push(clock.now()) > 0)
  }
  const began = clock.now()
  const change = (to: string) => {
    home = to
    notify('all')
  }
  const changeOf = (id: AgentId, to: string) => {
    home = to
    notify(new Set([id]))
  }
  return { clock, hints, closed, change, changeOf, times: () => ended.splice(0).map((at) => at - began) }
}

t.test('a change settles, then the hints of one connection after another are renewed', async (t) => {
  const { clock, hints, change, times } = await start(3)
  change('kas-1')
  clock.advance(1000)
  change('kas-2')
  clock.advance(999)
  t.strictSame(times(), [])
  clock.advance(60_000)
  t.strictSame(times(), [2000, 2200, 2400])
  t.equal(clock.pending, 0)
  await hints.stop()
})

t.test(
  'when leaving, the hints of all are renewed at once: of those that waited, and at each change from then on',
  async (t) => {
    const { clock, hints, change, times } = await start(3)
    change('kas-1')
    await hints.leave()
    t.strictSame(times(), [0, 0, 0])
    change('kas-2')
    t.strictSame(times(), [0, 0, 0])
    t.equal(clock.pending, 0)
  },
)

t.test('all parts of a replica leave in one turn: each connection loses one idle tunnel', async (t) => {
  const { hints, change, times } = await start(3)
  const left = hints.leave()
  change('kas-1')
  await left
  t.strictSame(times(), [0, 0, 0])
})

t.test('hints of closed connections are not renewed, and stop leaves nothing behind', async (t) => {
  const { clock, hints, closed, change, times } = await start(2)
  change('kas-1')
  closed.resolve()
  await closed.promise
  clock.advance(60_000)
  t.strictSame(times(), [])
  const other = await start(2)
  other.change('kas-1')
  t.equal(other.clock.pending, 1)
  await other.hints.stop()
  t.equal(other.clock.pending, 0)
  await hints.stop()
})

t.test('an agent that changes all the time takes turns with the others', async (t) => {
  const { clock, hints, change, changeOf, times } = await start(3)
  const connection = { session: { closed: new Promise(() => undefined) } } as unknown as AgentConnection
  hints.hints(connection, restlessId, 'pod')
  let restless = 0
  hints.idle(connection, restlessId, () => ++restless > 0)
  changeOf(restlessId, 'kas-1')
  change('kas-1')
  for (let i = 0; i < 100; i++) {
    clock.advance(100)
    changeOf(restlessId, `kas-${i + 2}`)
  }
  t.equal(times().length, 3)
  t.ok(restless > 3, `${restless} times`)
  await hints.stop()
})
