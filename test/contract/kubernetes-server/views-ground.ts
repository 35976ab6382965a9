import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import type { Directory } from '../../../src/kas/directory/directory.ts'
import { ReplicaMemory } from '../../../src/kas/memory/replica-memory.ts'
import { viewsEndpoint } from '../../../src/kas/modules/views/api/views-endpoint.ts'
import { defaultGraph, type GraphOptions, graphEndpoint } from '../../../src/kas/modules/views/graph/graph-endpoint.ts'
import type { KubernetesLimits } from '../../../src/kas/servers/kubernetes/http/kubernetes-limits.ts'
import { WebSocketTokens } from '../../../src/kas/servers/kubernetes/watch/websocket-tokens.ts'
import { eventually } from '../../support/eventually.ts'
import { startFeeds } from '../../support/feeds.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { FakeFollows } from '../../unit/kas/modules/views/feed/fake-follows.ts'
import { clusterForward, echo } from './fake-cluster.ts'
import { createKubernetesServer, directory } from './start-server.ts'

/** Starts a server on 8154 with views. The test plays the agent. */
export async function startViews(
  t: Test,
  limits: Partial<KubernetesLimits> = {},
  graph: Partial<GraphOptions> = {},
  memory = new ReplicaMemory(),
) {
  const clock = new ManualClock()
  const follows = new FakeFollows()
  const world = { grant: directory.grantUser, serves: true as boolean | undefined }
  const asked: Pick<Directory, 'grantJob' | 'grantUser'> = {
    grantJob: directory.grantJob,
    grantUser: (...query) => world.grant(...query),
  }
  const { feeds: views, register } = startFeeds(t, { forward: follows.forward, serves: () => world.serves, clock })
  const tokens = new WebSocketTokens({ secret: Buffer.alloc(64), clock })
  const { server } = createKubernetesServer(clusterForward(echo), { limits }, undefined, {
    clock,
    directory: asked,
    endpoints: [viewsEndpoint(views), graphEndpoint({ feeds: views, clock }, { ...defaultGraph, ...graph })],
    webSocketTokens: tokens,
    memory,
  })
  t.teardown(() => server.stop(AbortSignal.abort()))
  await server.start()
  const { port } = server.address as AddressInfo
  const follow = async (index = 0) => {
    await eventually(() => follows.all.length > index || Promise.reject(new Error('nobody is followed')))
    return follows.all[index] as (typeof follows.all)[number]
  }
  return { clock, follows, follow, world, register, views, tokens, server, port }
}
