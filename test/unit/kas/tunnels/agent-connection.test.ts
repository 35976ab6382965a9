import t from 'tap'
import type { AgentId } from '../../../../src/call/call.ts'
import { AgentConnection, defaultLiveness } from '../../../../src/kas/tunnels/agent-connection.ts'
import type { ServerSession } from '../../../../src/proto/grpc/server-session.ts'

const { busySilenceMs, busyPingTimeoutMs, idleSilenceMs, idlePingTimeoutMs } = defaultLiveness

/** A connection whose peer sends nothing from time 0 on. */
function silentConnection() {
  const told = { pings: 0, destroyed: false }
  const session = {
    bytesRead: 0,
    ping: () => {
      told.pings++
      return new Promise<number>(() => undefined)
    },
    destroy: () => {
      told.destroyed = true
    },
  }
  return { told, connection: new AgentConnection(session as unknown as ServerSession, 'agent:1', 0) }
}

// wire: ping.server
t.test('a silent connection is asked after, and given up: sooner while a call runs on it', async (t) => {
  for (const [running, silenceMs, timeoutMs] of [
    [false, idleSilenceMs, idlePingTimeoutMs],
    [true, busySilenceMs, busyPingTimeoutMs],
  ] as const) {
    const { told, connection } = silentConnection()
    if (running) connection.callStarted()
    connection.check(silenceMs - 1, 0)
    t.equal(told.pings, 0)
    connection.check(silenceMs, 0)
    t.equal(told.pings, 1)
    connection.check(silenceMs + timeoutMs - 1, 0)
    t.equal(told.destroyed, false)
    connection.check(silenceMs + timeoutMs, 0)
    t.equal(told.destroyed, true)
  }
})

t.test('a call that comes after the PING of an idle connection does not wait for that one', async (t) => {
  const { told, connection } = silentConnection()
  connection.check(idleSilenceMs, 0)
  t.equal(told.pings, 1)
  connection.callStarted()
  connection.check(idleSilenceMs + busyPingTimeoutMs - 1, 0)
  t.equal(told.destroyed, false)
  connection.check(idleSilenceMs + busyPingTimeoutMs, 0)
  t.equal(told.destroyed, true)
})

t.test('a change that concerns one agent ends the idle tunnels of that one', async (t) => {
  const { connection } = silentConnection()
  const ended: bigint[] = []
  const [good, evil] = [42n as AgentId, 43n as AgentId]
  for (const agentId of [good, evil]) {
    connection.onRenew(agentId, { endIdle: () => ended.push(agentId) > 0 })
  }
  connection.renew(new Set([44n as AgentId]))
  t.same([ended, connection.renewals], [[], 0], 'one that it does not carry')
  connection.renew(new Set([evil]))
  t.same([ended, connection.renewals], [[evil], 1])
  connection.renew()
  t.same(ended, [evil, good, evil])
})
