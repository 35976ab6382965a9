import { pino } from 'pino'
import type { Test } from 'tap'
import { parseKasAddress } from '../../../src/agentk/tunnels/kas-address.ts'
import { KasLink } from '../../../src/agentk/tunnels/kas-session.ts'
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

/** A link to kas, started. */
export async function startLink(
  t: Test,
  address: string,
  options: Partial<TransportOptions> & { clock?: Clock } = {},
): Promise<KasLink> {
  const kas = parseKasAddress(address)
  const transport = {
    address: kas,
    headers: [],
    userAgent: 'gitlab-agent/v0.0.0/test',
    authorization: () => 'Bearer token',
    env: {},
    ...options,
  }
  const link = new KasLink(
    { dial: (signal) => dialKas(transport, signal), log: silentLog, ...time, clock: options.clock ?? systemClock },
    { address: kas, userAgent: transport.userAgent },
  )
  await link.start()
  t.teardown(() => link.stop())
  return link
}

/** A pool on it, started, that serves the methods. */
export async function startPool(
  t: Test,
  link: KasLink,
  methods: Record<string, Serve>,
  options: Partial<TunnelPoolOptions> = {},
  components: Partial<TunnelPoolComponents> = {},
): Promise<TunnelPool> {
  const pool = new TunnelPool(
    {
      link,
      methods: new Map(Object.entries(methods)),
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
