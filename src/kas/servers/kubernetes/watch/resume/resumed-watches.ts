import type { AgentId, Forward, Reply } from '../../../../../call/call.ts'
import { ByteBudget, type ByteBudgets } from '../../../../../lib/byte-budget.ts'
import { type Clock, monotonicClock } from '../../../../../lib/clock.ts'
import type { KubernetesLimits } from '../../http/kubernetes-limits.ts'
import { openWatch, type ResumedWatchComponents, type WatchCall } from './resumed-watch.ts'
import type { WatchQuestion } from './watch-question.ts'

export interface ResumedWatchesComponents {
  readonly forward: Forward
  readonly onResumed: () => void
  /** of events that are not whole, of all watches of an agent */
  readonly kept: ByteBudgets<AgentId>
  /** default `monotonicClock` */
  readonly clock?: Clock
  /** default `Math.random` */
  readonly random?: () => number
}

export type ResumedWatchesLimits = Pick<KubernetesLimits, 'maxWatchPartialBytes'>

interface HowResumed extends Pick<ResumedWatchComponents, 'mayGoOn'> {
  readonly kept?: ByteBudget
}

/** Watches of callers, which go on where their way to the cluster is lost. */
export class ResumedWatches {
  readonly #components: Omit<ResumedWatchComponents, 'kept' | 'mayGoOn'>
  readonly #limits: ResumedWatchesLimits
  readonly #kept: ByteBudgets<AgentId>

  constructor({ kept, ...components }: ResumedWatchesComponents, limits: ResumedWatchesLimits) {
    this.#components = { clock: monotonicClock, random: Math.random, ...components }
    this.#limits = limits
    this.#kept = kept
  }

  /**
   * @param how.kept - where what is kept of it is counted; absent: of its own, and of the agent
   * @throws KasError as `openWatch`
   */
  async open(question: WatchQuestion, call: WatchCall, how: HowResumed): Promise<Reply> {
    const { bytes, leave } = this.#kept.enter(call.agentId)
    const { mayGoOn, kept = new ByteBudget(this.#limits.maxWatchPartialBytes, bytes) } = how
    try {
      const reply = await openWatch({ ...this.#components, kept, mayGoOn }, question, call)
      void reply.done.then(leave)
      return reply
    } catch (error) {
      leave()
      throw error
    }
  }
}
