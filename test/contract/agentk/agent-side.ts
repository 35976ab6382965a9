import { pino } from 'pino'
import type { Test } from 'tap'
import { parseKasAddress } from '../../../src/agentk/tunnels/kas-address.ts'
import type { KasConnections } from '../../../src/agentk/tunnels/kas-connections.ts'
import { KasSessions } from '../../../src/agentk/tunnels/kas-sessions.ts'
import {
  stockPool,
  TunnelPool,
  type TunnelPoolComponents,
  type TunnelPoolOptions,
} from '../../../src/agentk/tunnels/pool.ts'
import type { Serve } from '../../../src/agentk/tunnels/serve.ts'
import { dialKas, type TransportOptions } from '../../../src/agentk/tunnels/transport.ts'
import { type Clock, systemClock } from '../../../src/lib/clock.ts'

export const silentLog = pino({ level: 'silent' })
const time = { clock: systemClock, random: () => 0 }

/** Starts sessions to kas. */
export async function startSessions(
  t: Test,
  address: string,
  options: Partial<TransportOptions> & { clock?: Clock } = {},
): Promise<KasSessions> {
  const kas = parseKasAddress(address)
  const transport = {
    address: kas,
    headers: [],
    userAgent: 'gitlab-agent/v0.0.0/test',
    authorization: () => 'Bearer token',
    env: {},
    ...options,
  }
  const sessions = new KasSessions(
    { dial: (signal) => dialKas(transport, signal), log: silentLog, ...time, clock: options.clock ?? systemClock },
    { address: kas, userAgent: transport.userAgent },
  )
  await sessions.start()
  t.teardown(() => sessions.stop())
  return sessions
}

/** Returns the sessions in the form that modules use. */
export const kasOf = (
  sessions: KasSessions,
): Pick<
  KasConnections,
  'connected' | 'session' | 'onSession' | 'pingEvery' | 'metadata' | 'announce' | 'hasFeature' | 'onFeature'
> => ({
  get connected() {
    return sessions.connected
  },
  session: (signal) => sessions.session(signal),
  onSession: (listener) => sessions.onSession(listener),
  pingEvery: (session, intervalMs) => sessions.pingEvery(session, intervalMs),
  metadata: () => ({ authorization: ['Bearer token'] }),
  announce: () => undefined,
  hasFeature: () => false,
  onFeature: () => () => undefined,
})

/** Starts a pool on these sessions that serves the methods. */
export async function startPool(
  t: Test,
  sessions: KasSessions,
  methods: Record<string, Serve>,
  options: Partial<TunnelPoolOptions> = {},
  components: Partial<TunnelPoolComponents> = {},
): Promise<TunnelPool> {
  const pool = new TunnelPool(
    {
      sessions,
      methods: () => new Map(Object.entries(methods)),
      metadata: () => ({ authorization: ['Bearer token'] }),
      log: silentLog,
      ...time,
      ...components,
    },
    { ...stockPool, ...options },
  )
  await pool.start()
  t.teardown(() => pool.stop())
  return pool
}
