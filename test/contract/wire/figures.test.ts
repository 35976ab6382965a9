import t from 'tap'
import { stockPool } from '../../../src/agentk/tunnels/pool.ts'
import { defaultSearch } from '../../../src/kas/router/tunnel-search.ts'
import { ConnectionAge } from '../../../src/kas/servers/agents/connection-age.ts'
import { defaultKubernetesLimits } from '../../../src/kas/servers/kubernetes/http/kubernetes-limits.ts'
import { type AgentConnection, defaultLiveness } from '../../../src/kas/tunnels/agent-connection.ts'

/** Figures on which others rely. Other tests check their effect, with shorter times. */

const minuteMs = 60_000

// wire: age.shares
t.test('a connection of 2 h: GOAWAY, idle tunnels end, all is cut', async (t) => {
  const happened: string[] = []
  const connection = {
    goAway: () => happened.push('GOAWAY'),
    retire: () => happened.push('idle tunnels end'),
    session: { destroy: () => happened.push('cut') },
  } as unknown as AgentConnection
  // 0.5: in the middle of the jitter
  const age = new ConnectionAge(connection, 0, { maxAgeMs: 120 * minuteMs, random: () => 0.5 })
  for (const [minutes, expected] of [
    [24, ['GOAWAY']],
    [39, ['GOAWAY', 'idle tunnels end']],
    [24 + 78, ['GOAWAY', 'idle tunnels end', 'cut']],
  ] as const) {
    age.check(minutes * minuteMs - 1)
    t.strictSame(happened, expected.slice(0, -1), `before ${minutes} min`)
    age.check(minutes * minuteMs)
    t.strictSame(happened, expected)
  }
})

// wire: figure.find, figure.ping, figure.pool, figure.head, figure.keep-alive, figure.write
t.test('times and numbers', async (t) => {
  t.equal(defaultSearch.findTimeoutMs, 20_000, 'a call waits 20 s for a tunnel')
  t.equal(defaultLiveness.idleSilenceMs, 50_000, 'PING after 50 s: fronts cut what is idle at 60 s')
  t.strictSame(stockPool, { minIdle: 2, max: 500, step: 10, idleMs: minuteMs })
  const { headTimeoutMs, keepAliveMs, ownSocketWriteTimeoutMs } = defaultKubernetesLimits
  t.strictSame(
    { headTimeoutMs, keepAliveMs, ownSocketWriteTimeoutMs },
    {
      headTimeoutMs: 10_000,
      keepAliveMs: 60_000,
      ownSocketWriteTimeoutMs: 20_000,
    },
  )
})
