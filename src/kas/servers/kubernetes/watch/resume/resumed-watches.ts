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
  /** memory for incomplete events, of all watches of an agent */
  readonly kept: SharedRooms<AgentId>
  /** default `monotonicClock` */
  readonly clock?: Clock
  /** default `Math.random` */
  readonly random?: () => number
}

/** Name of the counted bytes, for refusals. */
export const keptEvents = 'bytes of events of this agent that are not whole'

export type ResumedWatchesLimits = Pick<KubernetesLimits, 'maxWatchPartialBytes'>

interface HowResumed extends Pick<ResumedWatchComponents, 'mayGoOn'> {
  /** budget for incomplete events; or, for a budget of its own, a function that ends the watch in favour of others */
  readonly kept: ByteBudget | ((reason: KasError) => void)
}

/** Opens callers' watches, which go on when their tunnel is lost. */
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
   * Opens a watch.
   *
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
