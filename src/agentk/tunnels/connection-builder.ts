import type { Metadata } from '../../call/call.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/log.ts'
import { WindowBudget } from '../../proto/grpc/window-budget.ts'
import { routeHeader, writeAgentPod } from '../../proto/placement.ts'
import type { BuildConnection } from './kas-connection.ts'
import { KasSessions } from './kas-sessions.ts'
import { TunnelPool } from './pool.ts'
import type { Serve } from './serve.ts'
import { dialKas, type TransportOptions } from './transport.ts'

/** Bytes of wide windows for all connections together: a long upload may fill a long network path, in a small pod. */
const maxWideBytes = 16 * 1024 * 1024

/**
 * Builds connections to kas, with their tunnels: to the front, to one replica through it, or to a replica's own
 * address.
 */
export function connectionBuilder(
  components: {
    /** served methods, by name; read when tunnels start, and when they announce others */
    readonly methods: () => ReadonlyMap<string, Serve>
    /** read at each Connect */
    readonly metadata: () => Metadata
    readonly logs: { readonly sessions: Logger; readonly tunnels: Logger }
    readonly clock: Clock
    readonly random: () => number
  },
  {
    transport,
    pod,
  }: {
    /** for `--kas-address` */
    readonly transport: TransportOptions
    /** name of this pod */
    readonly pod: string
  },
): BuildConnection {
  const { methods, logs, clock, random } = components
  const windows = new WindowBudget(maxWideBytes)
  return ({ target, role, onMetadata, isReused, endsWhenLost, onLost }) => {
    const address = target?.address ?? transport.address
    // a replica's own address needs no route through the front
    const route = target && !target.address ? target.name : undefined
    const headers = route === undefined ? transport.headers : [...transport.headers, [routeHeader, route] as const]
    const dial = (signal: AbortSignal) => dialKas({ ...transport, address, headers }, signal)
    const sessions = new KasSessions(
      { dial, log: logs.sessions, clock, random, endsWhenLost, onLost, windows },
      { address, userAgent: transport.userAgent },
    )
    const metadata = () => ({
      ...components.metadata(),
      ...(route === undefined || address.webSocket ? {} : { [routeHeader.toLowerCase()]: [route] }),
      ...writeAgentPod({ name: pod, role: role() }),
    })
    const parts = { sessions, methods, metadata, onMetadata, isReused, log: logs.tunnels, clock, random }
    return { sessions, pool: new TunnelPool(parts) }
  }
}
