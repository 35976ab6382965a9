import type { LocalReplica } from '../../../dev/start/local-replica.ts'
import { delay } from '../../../src/lib/signals.ts'
import type { GitopsGround } from './gitops-ground.ts'
import { restarted } from './kills.ts'

/** An event that hits the pods or replicas that report the state of sources. */
export interface LieOccasion {
  readonly name: string
  /**
   * @param request - request of a round at which it happens; some faults let no round begin, then it happens soon
   * @returns resolves once the state from before is back
   */
  readonly happen: (ground: GitopsGround, request: number, signal: AbortSignal) => Promise<() => Promise<void>>
}

/** Limit for that request, since some faults let no round begin. ms */
const patienceMs = 4000

/** Waits for that request of a round, or a short time. */
async function atRequest({ front }: GitopsGround, request: number, signal: AbortSignal): Promise<void> {
  const reached = Promise.withResolvers<void>()
  let left = request
  front.onRequest = (url) => {
    if (!url.includes('/leases') && !url.includes('watch=') && --left === 0) reached.resolve()
  }
  await Promise.race([reached.promise, delay(patienceMs, signal)])
  front.onRequest = () => undefined
}

export const occasions: readonly LieOccasion[] = [
  {
    name: 'both pods of agentk are killed and started',
    happen: async (ground, request, signal) => {
      await atRequest(ground, request, signal)
      for (const pod of ground.pods) pod.signal('SIGKILL')
      await Promise.all(ground.pods.map((pod) => pod.exited))
      await Promise.all(ground.pods.map((pod) => pod.start()))
      return async () => undefined
    },
  },
  {
    name: 'the pod that leads is frozen until the other one leads',
    happen: async (ground, request, signal) => {
      const pod = await ground.leadingPod()
      await atRequest(ground, request, signal)
      pod.signal('SIGSTOP')
      return async () => pod.signal('SIGCONT')
    },
  },
  {
    name: 'the replica that holds the agent is killed and started',
    happen: async (ground, request, signal) => {
      const holder = await ground.holder()
      await atRequest(ground, request, signal)
      const back = restarted(holder, ground, signal)
      back.catch(() => undefined) // awaited below
      return () => back
    },
  },
  {
    name: 'all replicas are killed and started',
    happen: async (ground, request, signal) => {
      await atRequest(ground, request, signal)
      for (const replica of ground.replicas) replica.signal('SIGKILL')
      await Promise.all(ground.replicas.map((replica: LocalReplica) => replica.exited))
      await Promise.all(ground.replicas.map((replica: LocalReplica) => replica.start()))
      return async () => undefined
    },
  },
]
