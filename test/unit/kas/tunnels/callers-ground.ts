import type { AgentId } from '../../../../src/call/call.ts'
import type { Tunnel } from '../../../../src/kas/tunnels/tunnel.ts'
import { TunnelRegistry } from '../../../../src/kas/tunnels/tunnel-registry.ts'
import type { TunnelRequest } from '../../../../src/kas/tunnels/tunnel-shares.ts'
import { KasError } from '../../../../src/lib/errors.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

/** Callers of one agent. They take its tunnels, wait for them and give them back. */

export const agentId = 42n as AgentId
export const method = '/test.Echo/Echo'

interface FakeConnection {
  running: number
  roundTripMs: number | undefined
}

/** Result of a waiting call: a tunnel or an error. Neither is set while it waits. */
export interface Waiting {
  got?: Tunnel
  code?: string
  error?: KasError
  leave: (reason: unknown) => void
}

export function callersGround({ maxWaitingPerAgent = 100, plentyPerConnection = 1000, few = 2 } = {}) {
  const clock = new ManualClock()
  const tunnels = new TunnelRegistry({ clock, random: () => 0.5 }, { maxWaitingPerAgent, plentyPerConnection, few })
  const connection: FakeConnection = { running: 0, roundTripMs: 1 }
  const add = (count: number) => {
    const added = Array.from({ length: count }, () => fakeTunnel(connection))
    for (const tunnel of added) tunnels.add(agentId, tunnel)
    return added
  }
  const request = (key: string, isWatch = false): TunnelRequest => ({ agentId, method, caller: { key }, isWatch })
  const take = (key: string, count: number, isWatch = false) =>
    Array.from({ length: count }, () => tunnels.take(request(key, isWatch)) as Tunnel)
  const wait = (key: string, overrides: Partial<TunnelRequest> = {}): Waiting => {
    const waiting: Waiting = { leave: () => {} }
    const controller = new AbortController()
    waiting.leave = (reason) => controller.abort(reason)
    const failed = (error: unknown) => {
      waiting.error = KasError.from(error)
      waiting.code = waiting.error.code
    }
    tunnels.wait({ ...request(key), ...overrides }, controller.signal).then((tunnel) => {
      waiting.got = tunnel
    }, failed)
    return waiting
  }
  const pass = async (ms: number) => {
    clock.advance(ms)
    await settled()
  }
  return { tunnels, connection, add, take, wait, pass, request }
}

export const settled = () => new Promise(setImmediate)

function fakeTunnel(connection: FakeConnection): Tunnel {
  const retired = new AbortController().signal
  const { promise: ended, resolve } = Promise.withResolvers<void>()
  const tunnel = {
    state: 'idle',
    methods: new Set([method]),
    connection: Object.assign(connection, { isSuspect: () => false, measure: () => undefined, retired }),
    ended,
    take: () => {
      tunnel.state = 'taken'
    },
    giveBack: () => {
      tunnel.state = 'idle'
    },
    forward: () => {
      tunnel.state = 'forwarding'
    },
    recall: () => tunnel.retire(),
    retire: () => {
      tunnel.state = 'ended'
      resolve()
    },
  }
  return tunnel as unknown as Tunnel
}
