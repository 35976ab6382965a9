import t from 'tap'
import { Departure } from '../../../../../src/kas/servers/agents/departure.ts'
import type { AgentConnection } from '../../../../../src/kas/tunnels/agent-connection.ts'
import { FakePlacement } from '../../../../support/fake-placement.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const options = { spreadMs: 4000, dialMs: 1000, moveMs: 2000 }

/** A replica with connections. Each event has the time since the start. */
function setUp(count: number, ours: readonly number[] = []) {
  const clock = new ManualClock()
  const began = clock.now()
  const events: string[] = []
  const connect = (name: string, movesByItself = false) => {
    const retire = new AbortController()
    const note = (what: string) => void events.push(`${clock.now() - began} ${name} ${what}`)
    return {
      retired: retire.signal,
      movesByItself,
      goAway: () => note('GOAWAY'),
      renewOne: () => undefined,
      retire: () => {
        if (!retire.signal.aborted) note('retired')
        retire.abort()
      },
    } as unknown as AgentConnection
  }
  const connections = new Set(Array.from({ length: count }, (_, i) => connect(`agent-${i}`, ours.includes(i))))
  const placement = new FakePlacement()
  const departure = new Departure({ connections, placement, clock, random: () => 0.5 }, options)
  return { clock, events, connect, connections, placement, departure }
}

t.test('connections are sent away one after another: GOAWAY, then the end of what is idle', async (t) => {
  const { clock, events, departure } = setUp(4)
  departure.begin()
  clock.advance(60_000)
  t.strictSame(events, [
    '500 agent-0 GOAWAY',
    '1500 agent-1 GOAWAY',
    '1500 agent-0 retired',
    '2500 agent-2 GOAWAY',
    '2500 agent-1 retired',
    '3500 agent-3 GOAWAY',
    '3500 agent-2 retired',
    '4500 agent-3 retired',
  ])
  t.equal(clock.pending, 0)
})

t.test('an agent that moves by itself has time for it, and is not sent away once it has left', async (t) => {
  const { clock, events, departure, connections } = setUp(4, [0, 1])
  departure.begin()
  clock.advance(1000)
  ;[...connections][1]?.retire()
  clock.advance(60_000)
  t.strictSame(
    events.filter((line) => /agent-[01]/.test(line)),
    ['1000 agent-1 retired', '2000 agent-0 GOAWAY', '3000 agent-0 retired'],
  )
})

t.test('while no other replica serves all stay; they go when one does', async (t) => {
  const { clock, events, departure, placement } = setUp(1)
  placement.peersServe = false
  departure.begin()
  placement.change(undefined)
  clock.advance(60_000)
  t.strictSame(events, [])
  placement.peersServe = true
  placement.change(undefined)
  clock.advance(60_000)
  t.strictSame(events, ['62000 agent-0 GOAWAY', '63000 agent-0 retired'])
})

t.test('one that comes though the replica leaves serves to the end of the time', async (t) => {
  const { clock, events, departure, connect } = setUp(0)
  departure.arrived(connect('early'))
  departure.begin()
  clock.advance(1000)
  departure.arrived(connect('late'))
  clock.advance(3000)
  t.strictSame(events, ['4000 late GOAWAY'])
  departure.arrived(connect('very late'))
  clock.advance(0)
  t.equal(events.at(-1), '4000 very late GOAWAY')
})

t.test('stop leaves nothing behind', async (t) => {
  const { clock, events, departure, placement } = setUp(2)
  departure.begin()
  clock.advance(1500)
  departure.stop()
  t.equal(clock.pending, 0)
  placement.change(undefined)
  clock.advance(60_000)
  t.strictSame(events, ['1000 agent-0 GOAWAY'])
})
