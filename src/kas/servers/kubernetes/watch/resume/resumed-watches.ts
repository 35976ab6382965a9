import type { AgentId, Forward, Reply } from '../../../../../call/call.ts'
import { ByteBudget } from '../../../../../lib/byte-budget.ts'
import { type Clock, monotonicClock } from '../../../../../lib/clock.ts'
import type { KasError } from '../../../../../lib/errors.ts'
import type { SharedRooms } from '../../../../../lib/shared-room.ts'
import { linkedController } from '../../../../../lib/signals.ts'
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
  readonly kept?: ByteBudget
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
   * @param how.kept - where what is kept of it is counted; absent: of its own, and of the agent
   * @throws KasError as `openWatch`
   */
  async open(question: WatchQuestion, call: WatchCall, how: HowResumed): Promise<Reply> {
    const { mayGoOn } = how
    if (how.kept) return await openWatch({ ...this.#components, kept: how.kept, mayGoOn }, question, call)
    const ended = linkedController(call.signal)
    const end = (reason: KasError) => ended.abort(reason)
    const hold = this.#kept.enter(call.agentId, call.caller, { what: keptEvents, end, amount: 0 })
    const leave = () => {
      ended.dispose()
      hold.leave()
    }
    const kept = new ByteBudget(this.#limits.maxWatchPartialBytes, hold)
    try {
      const components = { ...this.#components, kept, mayGoOn }
      const reply = await openWatch(components, question, { ...call, signal: ended.signal })
      void reply.done.then(leave)
      return reply
    } catch (error) {
      leave()
      throw error
    }
  }
}
