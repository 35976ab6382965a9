import type { Clock } from '../../../../lib/clock.ts'
import type { Visibility } from '../store/record.ts'
import { type Answer, Answers, everything, isAllowed } from './answers.ts'
import type { ListRights } from './list-rights.ts'
import type { PresentKinds } from './present-kinds.ts'
import { planReviews, type Wanted } from './review-plan.ts'
import type { Answered, Question } from './review-question.ts'
import type { Job, ReviewQueue } from './review-queue.ts'

/** Time from a question until it is asked again. ms */
const renewedAfterMs = 45_000
/** Due questions are checked at whole multiples of it. ms */
const wakePauseMs = 500
/** A review that failed is a denial, and is repeated after this time. ms */
const failedAgainAfterMs = 5000
/** Maximum age of a denial for a view that asks for fresh rights. ms */
const freshMs = 5000
/** New rights are published together, at whole multiples of it; lost rights are withdrawn at once. ms */
const gatherMs = 100
/** A view begins at the latest after this time, with the rights that are known then. ms */
const patienceMs = 1000

export interface AccessListener {
  /** The caller's rights have changed, or are known for the first time. */
  onVisibility(visibility: Visibility): void
  /** All questions were answered. */
  onWhole?(): void
}

export interface CallerRightsComponents {
  readonly clock: Clock
  readonly queue: ReviewQueue
  readonly present: PresentKinds
  /** @throws Error: the API server gave no answer */
  readonly ask: (question: Question) => Promise<Answered>
  readonly onFailure: (error: unknown) => void
}

type Timer = 'plan' | 'publish' | 'withdraw' | 'wake' | 'patience'

/**
 * Rights of one caller, asked step by step: everything; each kind in the whole cluster; the rest by namespace. Anything
 * unknown is denied.
 */
export class CallerRights {
  readonly #components: CallerRightsComponents
  readonly #views = new Map<AccessListener, Wanted & { isShown: boolean }>()
  readonly #answers: Answers
  readonly #asking = new Map<string, Job>()
  #visibility: ListRights | undefined
  #hasTooManyNamespaces = false
  #isWhole = false
  /** older denials are asked again. ms */
  #freshFrom = Number.NEGATIVE_INFINITY
  #problem = ''
  #timers = new Map<Timer, { at: number; cancel: () => void }>()
  #stopWatching: (() => void) | undefined
  /** time when the last view was closed. ms */
  idleSince: number

  constructor(components: CallerRightsComponents) {
    this.#components = components
    this.#answers = new Answers(components.clock)
    this.idleSince = components.clock.now()
  }

  get isIdle(): boolean {
    return this.#views.size === 0
  }

  get hasTooManyNamespaces(): boolean {
    return this.#hasTooManyNamespaces
  }

  /** True once all questions were answered. */
  get isWhole(): boolean {
    return this.#isWhole
  }

  /** Reason why no rights are known; empty: some are. */
  get problem(): string {
    return this.#problem
  }

  add(listener: AccessListener, wanted: Wanted): void {
    const { clock } = this.#components
    if (this.isIdle) this.#answers.forget(new Set())
    this.#views.set(listener, { ...wanted, isShown: false })
    this.#isWhole = false // the new view may need more
    if (wanted.isFresh) this.#freshFrom = clock.now() - freshMs
    this.#stopWatching ??= this.#components.present.onMore(() =>
      this.#after('plan', toNext(gatherMs, clock), () => this.#plan()),
    )
    this.#after('patience', patienceMs, () => this.#showAll())
    this.#after('plan', 0, () => this.#plan())
  }

  delete(listener: AccessListener): void {
    this.#views.delete(listener)
    if (this.#views.size > 0) return
    this.idleSince = this.#components.clock.now()
    this.#rest()
  }

  /** Stops asking. */
  #rest(): void {
    this.#stopWatching?.()
    this.#stopWatching = undefined
    for (const { cancel } of this.#timers.values()) cancel()
    this.#timers.clear()
    for (const job of this.#asking.values()) this.#components.queue.delete(job)
    this.#asking.clear()
  }

  /** Starts a timer; if one of the same name runs, the earlier one stays. */
  #after(what: Timer, ms: number, action: () => void): void {
    const { clock } = this.#components
    const at = clock.now() + ms
    const known = this.#timers.get(what)
    if (known && known.at <= at) return
    known?.cancel()
    const cancel = clock.after(ms, () => {
      this.#timers.delete(what)
      action()
    })
    this.#timers.set(what, { at, cancel })
  }

  #plan(): void {
    const plan = planReviews(this.#answers, this.#components.present, [...this.#views.values()])
    this.#hasTooManyNamespaces = plan.hasTooManyNamespaces
    const now = this.#components.clock.now()
    let wakeAt = Number.POSITIVE_INFINITY
    let { isWhole } = plan
    for (const question of plan.questions) {
      const answer = this.#answers.get(question)
      const isOld = answer !== undefined && answer.askedAt < this.#freshFrom && !isAllowed(answer)
      const dueAt = answer && !isOld ? answer.askedAt + waitAfter(answer) : now
      if (isOld) isWhole = false
      if (this.#asking.has(question.key)) continue
      if (dueAt <= now) this.#ask(question)
      else wakeAt = Math.min(wakeAt, dueAt)
    }
    this.#answers.forget(new Set(plan.questions.map(({ key }) => key)))
    wakeAt = Math.min(wakeAt, this.#answers.nextEnd())
    if (wakeAt < Number.POSITIVE_INFINITY) this.#wakeAfter(wakeAt - now)
    const isNewlyWhole = isWhole && !this.#isWhole
    this.#isWhole = isWhole
    if (isWhole) this.#showAll()
    if (isNewlyWhole) for (const listener of [...this.#views.keys()]) listener.onWhole?.()
  }

  #wakeAfter(ms: number): void {
    this.#after('wake', toNext(wakePauseMs, this.#components.clock, ms), () => {
      this.#plan()
      this.#withdraw()
    })
  }

  #ask(question: Question): void {
    const { queue, clock, ask, onFailure } = this.#components
    const settle = (askedAt: number, answered: Answer['answered']) => {
      if (this.#asking.get(question.key) !== job) return // the answer is no longer needed
      this.#asking.delete(question.key)
      this.#answered({ question, answered, askedAt })
    }
    const job: Job = {
      source: this,
      run: async () => {
        const askedAt = clock.now()
        try {
          settle(askedAt, await ask(question))
        } catch (error) {
          onFailure(error)
          settle(askedAt, 'failed')
        }
      },
      lost: () => settle(clock.now(), 'failed'),
    }
    this.#asking.set(question.key, job)
    queue.add(job)
  }

  #answered(answer: Answer): void {
    const { question } = answer
    const { clock } = this.#components
    const before = this.#answers.get(question)
    this.#answers.set(answer)
    if (question.key === everything.key) this.#noteProblem(answer)
    const [was, is] = [before !== undefined && isAllowed(before), isAllowed(answer)]
    // new rules may hide what an older answer allows
    if ((was && !is) || (before && question.about === 'rules')) this.#after('withdraw', 0, () => this.#withdraw())
    else if (is && !was) this.#after('publish', toNext(gatherMs, clock), () => this.#publish())
    this.#wakeAfter(answer.askedAt + renewedAfterMs - clock.now())
    if (this.#asking.size === 0) this.#after('plan', 0, () => this.#plan())
  }

  #noteProblem({ answered }: Answer): void {
    const problem = answered === 'failed' ? 'what may be listed could not be reviewed' : ''
    if (problem === this.#problem) return
    this.#problem = problem
    this.#notify()
  }

  /** Starts the views that wait, with the rights that are known. */
  #showAll(): void {
    const waiting = [...this.#views].filter(([, { isShown }]) => !isShown)
    if (waiting.length === 0) return
    this.#publish()
    for (const [listener, view] of waiting) {
      view.isShown = true
      listener.onVisibility(this.#visibility as Visibility)
    }
  }

  #publish(): void {
    this.#show(this.#answers.rights())
  }

  /** Withdraws lost rights, and gives no new ones yet. */
  #withdraw(): void {
    if (this.#visibility) this.#show(this.#answers.rights(this.#visibility))
  }

  #show(visibility: ListRights): void {
    if (visibility.key === this.#visibility?.key) return
    this.#visibility = visibility
    this.#notify()
  }

  #notify(): void {
    for (const [listener, { isShown }] of [...this.#views]) {
      if (isShown && this.#visibility) listener.onVisibility(this.#visibility)
    }
  }
}

function waitAfter({ answered }: Answer): number {
  return answered === 'failed' ? failedAgainAfterMs : renewedAfterMs
}

/** @returns time to the next multiple of `stepMs` that is at least `ms` away: it depends on the clock alone */
function toNext(stepMs: number, clock: Clock, ms = 0): number {
  const now = clock.now()
  return (Math.floor((now + Math.max(0, ms - 1)) / stepMs) + 1) * stepMs - now
}
