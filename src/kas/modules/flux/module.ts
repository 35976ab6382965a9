import { create } from '@bufbuild/protobuf'
import { Pushes, RecentPushesResponseSchema } from '../../../proto/gen/replica_pushes_pb.ts'
import { unaryService } from '../../../proto/unary.ts'
import type { KasHost, KasModule } from '../../module.ts'
import type { Peer } from '../../peers/peers.ts'
import { createFluxMetrics } from './flux-metrics.ts'
import { RecentPushes } from './recent-pushes.ts'
import { reconcileProjects, reconcileProjectsMethod } from './reconcile-projects.ts'

/** room for 10,000 projects with paths of usual length */
const maxMessageBytes = 1024 * 1024
/**
 * Streams of an agent (`method_calls_of_agent`): the leading pod keeps one open. Each gets every push, and the recent
 * ones at its start.
 */
const maxPerAgent = 20
/**
 * Rate for four of the longest lists at once, and one more each two seconds: a new list comes when Flux's objects
 * change.
 */
const rate = { perSecond: 500, burst: 5000, cost: { call: 1, message: 1, kib: 1 } }
/** pushes in one call */
const maxPushesAtOnce = 1000

/** Notifies agents of pushes, for their Flux. */
export function createFlux({ directory, pushes, peers, usage, clock, register, log }: KasHost): KasModule {
  const recent = new RecentPushes({ pushes, clock })
  const metrics = createFluxMetrics(register)
  const serve = reconcileProjects({ pushes: recent, directory, usage, metrics, log, clock })
  /** Sends the recent pushes to a peer that comes into reach; later ones are broadcast. */
  const greet = async ({ instance }: Peer) => {
    const push = recent.known().map(({ id, ...each }) => ({ ...each, pushId: id }))
    for (let from = 0; from < push.length; from += maxPushesAtOnce) {
      await peers.call(instance, Pushes.method.recentPushes, { push: push.slice(from, from + maxPushesAtOnce) })
    }
  }
  peers.onReached(greet)
  return {
    name: 'flux',
    agentMethods: {
      [reconcileProjectsMethod]: { type: 'server_stream', patient: true, maxMessageBytes, maxPerAgent, rate, serve },
    },
    replicaMethods: unaryService(Pushes, {
      recentPushes: async ({ push }) => {
        recent.learn(push.map(({ pushId, ...each }) => ({ ...each, id: pushId })))
        return create(RecentPushesResponseSchema)
      },
    }),
  }
}
