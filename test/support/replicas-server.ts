import type { Test } from 'tap'
import { createReplicaIdentity } from '../../src/kas/peers/replica-identity.ts'
import {
  ReplicasServer,
  type ReplicasServerComponents,
  type ReplicasServerOptions,
} from '../../src/kas/servers/replicas/replicas-server.ts'
import { TunnelRegistry } from '../../src/kas/tunnels/tunnel-registry.ts'
import { monotonicClock } from '../../src/lib/clock.ts'
import { createLogger } from '../../src/lib/log.ts'
import { noTracer } from '../../src/lib/tracing/tracer.ts'

/** Starts a replica's server for its peers; every replica is a peer, unless `components` replaces that. */
export async function startReplicasServer(
  t: Test,
  {
    components,
    options,
    patience,
  }: {
    components?: Partial<ReplicasServerComponents>
    options?: Partial<ReplicasServerOptions>
    /** limit of its stop at the end; absent: its graces */
    patience?: AbortSignal
  } = {},
) {
  const identity = components?.identity ?? (await createReplicaIdentity())
  const tunnels = components?.tunnels ?? new TunnelRegistry({ clock: monotonicClock })
  const strangers = { count: 0 }
  const server = new ReplicasServer(
    {
      identity,
      tunnels,
      isKnown: () => true,
      methods: {},
      log: createLogger({ level: 'silent' }),
      onStranger: () => void strangers.count++,
      tracer: noTracer,
      ...components,
    },
    { listen: { port: 0, host: '127.0.0.1' }, listenGraceMs: 0, ...options },
  )
  await server.start()
  t.teardown(() => server.stop(patience))
  return { server, identity, tunnels, strangers }
}
