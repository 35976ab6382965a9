import { pino } from 'pino'
import type { Test } from 'tap'
import { connectionBuilder } from '../../../src/agentk/tunnels/connection-builder.ts'
import { allowedAddress, parseKasAddress } from '../../../src/agentk/tunnels/kas-address.ts'
import {
  defaultKasConnections,
  KasConnections,
  type KasConnectionsOptions,
} from '../../../src/agentk/tunnels/kas-connections.ts'
import type { Serve } from '../../../src/agentk/tunnels/serve.ts'
import type { Forward } from '../../../src/call/call.ts'
import { type Clock, systemClock } from '../../../src/lib/clock.ts'

export const echoMethod = '/test.Echo/Do'

const echo: Forward = async (call) => ({
  metadata: Promise.resolve({ before: ['words'] }),
  messages: call.messages,
  done: Promise.resolve({ trailers: {} }),
})

export interface ConnectionsSideOptions {
  readonly methods?: Record<string, Serve>
  readonly allowHome?: readonly string[]
  /** clock of the moves only; sessions use the system's clock */
  readonly clock?: Clock
  readonly times?: Partial<KasConnectionsOptions>
  readonly pod?: string
  /** path of a PEM file with the CA of kas, for grpcs and wss */
  readonly caFile?: string
  /** default: `good` */
  readonly token?: string
}

/** Starts all parts of agentk that face kas. */
export async function startConnections(
  t: Test,
  address: string,
  options: ConnectionsSideOptions = {},
): Promise<KasConnections> {
  const log = pino({ level: 'silent' })
  const own = parseKasAddress(address)
  const authorization = `Bearer ${options.token ?? 'good'}`
  const transport = {
    address: own,
    caFile: options.caFile,
    headers: [],
    userAgent: 'gitlab-agent/v0.0.0/test',
    authorization: () => authorization,
    env: {},
  }
  const metadata = () => ({ authorization: [authorization] })
  const build = connectionBuilder(
    {
      methods: () => new Map(Object.entries(options.methods ?? { [echoMethod]: echo })),
      metadata,
      logs: { sessions: log, tunnels: log },
      clock: systemClock,
      random: () => 0,
    },
    { transport, pod: options.pod ?? 'pod-a' },
  )
  const allowed = (named: string) => allowedAddress(named, { own, alsoAllowed: options.allowHome ?? [] })
  const connections = new KasConnections(
    { build, metadata, allowed, log, clock: options.clock ?? systemClock, random: () => 0.5 },
    { ...defaultKasConnections, ...options.times },
  )
  t.teardown(async () => {
    await connections.tunnels.stop()
    await connections.stop()
  })
  await connections.start()
  await connections.tunnels.start()
  return connections
}
