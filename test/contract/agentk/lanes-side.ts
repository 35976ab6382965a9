import { pino } from 'pino'
import type { Test } from 'tap'
import { allowedAddress } from '../../../src/agentk/tunnels/allowed-address.ts'
import { laneBuilder } from '../../../src/agentk/tunnels/build-connection.ts'
import { parseKasAddress } from '../../../src/agentk/tunnels/kas-address.ts'
import { defaultLanes, Lanes, type LanesOptions } from '../../../src/agentk/tunnels/kas-connections.ts'
import type { Serve } from '../../../src/agentk/tunnels/serve.ts'
import type { Forward } from '../../../src/call/call.ts'
import { type Clock, systemClock } from '../../../src/lib/clock.ts'

export const echoMethod = '/test.Echo/Do'

const echo: Forward = async (call) => ({
  metadata: Promise.resolve({ before: ['words'] }),
  messages: call.messages,
  done: Promise.resolve({ trailers: {} }),
})

export interface LanesSideOptions {
  readonly methods?: Record<string, Serve>
  readonly allowHome?: readonly string[]
  /** of the lanes alone; the connections' is the real one */
  readonly clock?: Clock
  readonly lanes?: Partial<LanesOptions>
  readonly pod?: string
  /** path, PEM: of kas, for grpcs and wss */
  readonly caFile?: string
  /** default `good` */
  readonly token?: string
}

/** All of agentk that faces kas, started. */
export async function startLanes(t: Test, address: string, options: LanesSideOptions = {}): Promise<Lanes> {
  const log = pino({ level: 'silent' })
  const own = parseKasAddress(address)
  const authorization = `Bearer ${options.token ?? 'good'}`
  const transport = {
    address: own,
    ...(options.caFile === undefined ? {} : { caFile: options.caFile }),
    headers: [],
    userAgent: 'gitlab-agent/v0.0.0/test',
    authorization: () => authorization,
    env: {},
  }
  const build = laneBuilder(
    {
      methods: new Map(Object.entries(options.methods ?? { [echoMethod]: echo })),
      metadata: () => ({ authorization: [authorization] }),
      logs: { link: log, tunnels: log },
      clock: systemClock,
      random: () => 0,
    },
    { transport, pod: options.pod ?? 'pod-a' },
  )
  const allowed = (named: string) => allowedAddress(named, { own, alsoAllowed: options.allowHome ?? [] })
  const lanes = new Lanes(
    { build, allowed, log, clock: options.clock ?? systemClock },
    { ...defaultLanes, ...options.lanes },
  )
  t.teardown(async () => {
    await lanes.tunnels.stop()
    await lanes.stop()
  })
  await lanes.start()
  await lanes.tunnels.start()
  return lanes
}
