import type { ResourceKind } from '../../../../kubernetes/kind.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { Deadline } from '../../../../lib/deadline.ts'
import { pause } from '../../../../lib/pause.ts'
import { linkedController } from '../../../../lib/signals.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import { type Answered, accessQuestion, ask, type Question, rulesQuestion } from '../access/review-question.ts'

/** Time from one round to the next, a fifth less or more. ms */
const roundMs = 40_000
/** Bound of reviews in a round: the API server writes each to its audit log. */
export const maxReviewsPerRound = 100
/** Reviews of one refusal: the rules, then the right itself. */
const maxReviewsEach = 2
/** Timeout of all reviews of a round. ms */
const roundTimeoutMs = 30_000

export interface RefusalsComponents {
  /** client with the identity that lists and watches */
  readonly api: Pick<ApiClient, 'json'>
  readonly clock: Clock
  readonly random: () => number
}

/** Kind that agentk may not follow. */
export interface Refused {
  readonly kind: Pick<ResourceKind, 'group' | 'plural'>
  /** undefined: the whole cluster */
  readonly namespace: string | undefined
}

interface Waiting extends Refused {
  end(): void
}

/**
 * Lets refused watches wait until a review says that they are allowed. This is cheap: where all rules are known, one
 * review of a namespace answers for all that is refused there.
 */
export class Refusals {
  readonly #components: RefusalsComponents
  /** in the order of their reviews, the latest last */
  readonly #waiting = new Set<Waiting>()
  #cancelWait: (() => void) | undefined
  /** the round that runs */
  #round: Deadline | undefined

  constructor(components: RefusalsComponents) {
    this.#components = components
  }

  /** Resolves when another try is worth it, after `mostMs` in any case, or as soon as the signal aborts. */
  async wait(refused: Refused, mostMs: number, signal: AbortSignal): Promise<void> {
    const waiting = linkedController(signal)
    const one = { ...refused, end: () => waiting.abort() }
    this.#waiting.add(one)
    this.#schedule()
    await pause(mostMs, this.#components.clock, waiting.signal)
    waiting.dispose()
    this.#waiting.delete(one)
    if (this.#waiting.size === 0) this.#rest()
  }

  #rest(): void {
    this.#cancelWait?.()
    this.#cancelWait = undefined
    this.#round?.abort()
  }

  #schedule(): void {
    if (this.#cancelWait || this.#round || this.#waiting.size === 0) return
    const { clock, random } = this.#components
    this.#cancelWait = clock.after(roundMs * (0.8 + 0.4 * random()), () => void this.#review())
  }

  async #review(): Promise<void> {
    this.#cancelWait = undefined
    const round = new Deadline({ ms: roundTimeoutMs, clock: this.#components.clock })
    this.#round = round
    let left = maxReviewsPerRound
    const asked = new Map<string, Promise<Answered | undefined>>()
    const answer = (question: Question): Promise<Answered | undefined> => {
      const known = asked.get(question.key)
      if (known) return known
      left--
      // a review that fails says nothing
      const answered = ask(this.#components.api, question, [], round.signal).catch(() => undefined)
      asked.set(question.key, answered)
      return answered
    }
    for (const one of [...this.#waiting]) {
      if (left < maxReviewsEach) break
      const isAllowed = await this.#isAllowed(one, answer)
      if (round.signal.aborted) break
      if (isAllowed) one.end()
      else if (this.#waiting.delete(one)) this.#waiting.add(one)
    }
    round.end()
    this.#round = undefined
    this.#schedule()
  }

  async #isAllowed(
    { kind: { group, plural }, namespace }: Refused,
    answer: (question: Question) => Promise<Answered | undefined>,
  ): Promise<boolean> {
    // rules of any namespace include what is allowed in the whole cluster
    const rules = await answer(rulesQuestion(namespace ?? 'default'))
    if (rules && 'rules' in rules && rules.rules?.mayAllow('watch', group, plural) === false) return false
    const watch = await answer(accessQuestion('watch', group, plural, namespace ?? ''))
    return watch !== undefined && 'allowed' in watch && watch.allowed
  }
}
