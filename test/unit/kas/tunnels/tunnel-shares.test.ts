import t, { type Test } from 'tap'
import type { AgentId } from '../../../../src/call/call.ts'
import type { Caller } from '../../../../src/call/caller.ts'
import type { Tunnel } from '../../../../src/kas/tunnels/tunnel.ts'
import { Shares } from '../../../../src/kas/tunnels/tunnel-shares.ts'
import { Seeded } from '../../../support/seeded.ts'

/** Counts of tunnels for each caller, as tunnels come and go. */

const agentId = 42n as AgentId
const connections: readonly object[] = [{ pod: 0 }, { pod: 1 }]
const users = ['one', 'two'].map((key): Caller => ({ key }))
const jobs = users.flatMap(({ key: userKey }) => ['a', 'b', 'c'].map((key): Caller => ({ key, userKey })))
const callers = [...users, ...jobs]
const few = 3

interface Use {
  readonly tunnel: Tunnel
  readonly caller: Caller
  readonly isWatch: boolean
}

/** Counts everything again. */
function expected(uses: readonly Use[], caller: Caller) {
  const userOf = ({ key, userKey = key }: Caller) => userKey
  const own = uses.filter((use) => use.caller.key === caller.key)
  const ofUser = uses.filter((use) => userOf(use.caller) === userOf(caller))
  return {
    holding: { tunnels: own.length, watches: own.filter(({ isWatch }) => isWatch).length },
    holdsFew: own.length < few && ofUser.length < few,
  }
}

function isAsExpected(t: Test, shares: Shares, uses: readonly Use[]): void {
  const found = callers.map((caller) => ({
    holding: { ...shares.of(caller.key) },
    holdsFew: shares.holdsFewer(caller, few),
  }))
  t.same(
    found,
    callers.map((caller) => expected(uses, caller)),
  )
  for (const connection of connections) {
    const own = uses.filter(({ tunnel }) => (tunnel.connection as object) === connection)
    t.equal(shares.on(connection), own.length)
  }
  t.equal(shares.watches.length, uses.filter(({ isWatch }) => isWatch).length)
  t.equal(shares.isEmpty, uses.length === 0)
  t.equal([...shares.callers].length, new Set(uses.map(({ caller }) => caller.key)).size)
}

t.test('whatever comes and goes, what is counted is what is held, and nothing stays', async (t) => {
  const seeded = Seeded.for(t)
  const shares = new Shares()
  const uses: Use[] = []
  for (let step = 0; step < 300; step++) {
    if (uses.length === 0 || seeded.chance(0.55)) {
      const tunnel = { connection: seeded.pick(connections), state: 'forwarding' } as unknown as Tunnel
      const use = { tunnel, caller: seeded.pick(callers), isWatch: seeded.chance(0.5) }
      uses.push(use)
      shares.taken(tunnel, { agentId, method: '/a.B/C', ...use })
    } else {
      const [{ tunnel }] = uses.splice(seeded.int(uses.length), 1) as [Use]
      shares.left(tunnel)
      if (seeded.chance(0.2)) shares.left(tunnel) // a recalled watch ends a second time
    }
    isAsExpected(t, shares, uses)
  }
  for (const { tunnel } of uses.splice(0)) shares.left(tunnel)
  isAsExpected(t, shares, [])
})
