import type { AgentId, Forward, Reply } from '../../../../../call/call.ts'
import { ByteBudget } from '../../../../../lib/byte-budget.ts'
import { type Clock, monotonicClock } from '../../../../../lib/clock.ts'
import type { KasError } from '../../../../../lib/errors.ts'
import type { SharedRooms } from '../../../../../lib/shared-room.ts'
import type { KubernetesLimits } from '../../http/kubernetes-limits.ts'
import { openWatch, type ResumedWatchComponents, type WatchCall } from './resumed-watch.ts'
import type { WatchQuestion } from './watch-question.ts'

export interface ResumedWatchesComponents {
  readonly forward: Forward
  readonly onResumed: () => void
  /** of events that are not whole, of all watches of an agent */
  readonly kept: SharedRooms<AgentId>
  /** default `monotonicClock` */
  readonly clock?: Clock
  /** default `Math.random` */
  readonly random?: () => number
}

/** what callers have too many of */
export const keptEvents = 'bytes of events of this agent that are not whole'

export type ResumedWatchesLimits = Pick<KubernetesLimits, 'maxWatchPartialBytes'>

interface HowResumed extends Pick<ResumedWatchComponents, 'mayGoOn'> {
  /** where what is kept of it is counted, or, where that is of its own, ends it for another caller's sake */
  readonly kept: ByteBudget | ((reason: KasError) => void)
}

/** Watches of callers, which go on where their way to the cluster is lost. */
export class ResumedWatches {
  readonly #components: Omit<ResumedWatchComponents, 'kept' | 'mayGoOn'>
  readonly #limits: ResumedWatchesLimits
  readonly #kept: SharedRooms<AgentId>

  constructor({ kept, ...components }: ResumedWatchesComponents, limits: ResumedWatchesLimits) {
    this.#components = { clock: monotonicClock, random: Math.random, ...components }
    this.#limits = limits
    this.#kept = kept
  }

  /**
   * @throws KasError as `openWatch`
   */
  async open(question: WatchQuestion, call: WatchCall, how: HowResumed): Promise<Reply> {
    const { mayGoOn, kept: end } = how
    if (typeof end !== 'function') return await openWatch({ ...this.#components, kept: end, mayGoOn }, question, call)
    const hold = this.#kept.enter(call.agentId, call.caller, { what: keptEvents, end, amount: 0 })
    const kept = new ByteBudget(this.#limits.maxWatchPartialBytes, hold)
    try {
      const reply = await openWatch({ ...this.#components, kept, mayGoOn }, question, call)
      void reply.done.then(() => hold.leave())
      return reply
    } catch (error) {
      hold.leave()
      throw error
    }
  }
}
