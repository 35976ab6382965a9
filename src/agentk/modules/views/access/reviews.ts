import type { Clock } from '../../../../lib/clock.ts'
import { withDeadline } from '../../../../lib/deadline.ts'
import { errorText, KasError } from '../../../../lib/errors.ts'
import { LimitedLog } from '../../../../lib/limited-log.ts'
import type { Logger } from '../../../../lib/log.ts'
import type { Caller } from '../../../caller.ts'
import type { ApiClient } from '../../../cluster/api-client.ts'
import type { Identities } from '../../../cluster/identities.ts'
import { deniedAfterMs } from './answers.ts'
import { type AskEvents, askEvents, type EventsQuestion, type LatestEvents } from './asked-events.ts'
import { type AccessListener, CallerRights } from './caller-rights.ts'
import type { PresentKinds } from './present-kinds.ts'
import type { Wanted } from './review-plan.ts'
import { ask, type Question } from './review-question.ts'
import { ReviewQueue } from './review-queue.ts'

/** Bound of callers whose rights are kept (`viewers`); one without a view makes room. */
export const maxCallers = 1000
/** Timeout of one review. ms */
const timeoutMs = 10_000

export interface ReviewsComponents {
  readonly api: Pick<ApiClient, 'json'>
  readonly clock: Clock
  readonly log: Logger
  readonly identities: Pick<Identities, 'headers'>
}

/** Rights of one view. */
export interface Access {
  /** reason why no rights are known; empty: some are */
  readonly problem: string
  /** there are so many namespaces that a scope must name the wanted ones */
  readonly hasTooManyNamespaces: boolean
  /** all questions were answered: anything not allowed is denied */
  readonly isWhole: boolean
  /** Reads events of any type, as the caller. Never rejects. */
  readonly events: AskEvents
  close(): void
}

/** Asks the API server, as each caller, what that caller may list: its authorizers decide. */
export class Reviews {
  readonly #components: ReviewsComponents
  readonly #queue: ReviewQueue
  readonly #failures: LimitedLog
  readonly #callers = new Map<string, CallerRights>()
  readonly #closing = new AbortController()

  constructor(components: ReviewsComponents) {
    this.#components = components
    this.#queue = new ReviewQueue(components.clock)
    this.#failures = new LimitedLog(components, 'What a caller may list could not be reviewed')
  }

  /**
   * @throws KasError FORBIDDEN: the caller has no name; TOO_MANY_STREAMS: too many callers; IDENTITY_REFUSED; STATUS:
   * agentk itself acts as another identity already
   */
  open(caller: Caller, wanted: Wanted, present: PresentKinds, listener: AccessListener): Access {
    const headers = this.#headersOf(caller)
    const rights = this.#rightsOf(JSON.stringify([caller.as, headers]), headers, present)
    rights.add(listener, wanted)
    return {
      get problem() {
        return rights.problem
      },
      get hasTooManyNamespaces() {
        return rights.hasTooManyNamespaces
      },
      get isWhole() {
        return rights.isWhole
      },
      events: (question, signal) => this.#events(rights, { ...question, headers }, signal),
      close: () => rights.delete(listener),
    }
  }

  close(): void {
    this.#closing.abort()
    this.#queue.close()
  }

  #headersOf(caller: Caller): readonly string[] {
    const user = caller.as === 'user' ? caller.user : undefined
    // without a name there are no headers, and agentk would ask for itself
    if (user && !user.username) throw new KasError({ code: 'FORBIDDEN', reason: 'the caller has no name' })
    return this.#components.identities.headers(user)
  }

  #rightsOf(key: string, headers: readonly string[], present: PresentKinds): CallerRights {
    const known = this.#callers.get(key)
    if (known) return known
    this.#makeRoom()
    const { clock } = this.#components
    const rights = new CallerRights({
      clock,
      queue: this.#queue,
      present,
      ask: (question) => this.#ask(question, headers),
      onFailure: (error) => this.#failures.warn(errorText(error)),
    })
    this.#callers.set(key, rights)
    return rights
  }

  /**
   * Removes callers without a view once their answers are too old, or sooner if room is needed.
   *
   * @throws KasError TOO_MANY_STREAMS: all callers have views
   */
  #makeRoom(): void {
    const now = this.#components.clock.now()
    for (const [key, { isIdle, idleSince }] of this.#callers) {
      if (isIdle && (now >= idleSince + deniedAfterMs || this.#callers.size >= maxCallers)) this.#callers.delete(key)
    }
    if (this.#callers.size < maxCallers) return
    throw new KasError({ code: 'TOO_MANY_STREAMS', name: 'viewers', limit: maxCallers, what: 'callers with views' })
  }

  /** Queues the question among the reviews: it is as much work for the API server as a review. */
  async #events(rights: CallerRights, question: EventsQuestion, signal: AbortSignal) {
    const { promise, resolve } = Promise.withResolvers<LatestEvents | undefined>()
    const { api } = this.#components
    const job = {
      source: rights,
      run: () =>
        this.#inTime((timely) => askEvents(api, question, timely), signal)
          .catch((error: unknown) => {
            if (!signal.aborted) this.#failures.warn(errorText(error))
            return undefined
          })
          .then(resolve),
      lost: () => resolve(undefined),
    }
    const leave = () => {
      this.#queue.delete(job)
      resolve(undefined)
    }
    signal.addEventListener('abort', leave, { once: true })
    if (signal.aborted) leave()
    else this.#queue.add(job)
    return promise.finally(() => signal.removeEventListener('abort', leave))
  }

  #ask(question: Question, headers: readonly string[]) {
    const { api } = this.#components
    return this.#inTime((signal) => ask(api, question, headers, signal))
  }

  #inTime<T>(action: (signal: AbortSignal) => Promise<T>, signal?: AbortSignal): Promise<T> {
    const { clock } = this.#components
    const reason = () => new Error(`no answer in ${timeoutMs} ms`)
    return withDeadline({ ms: timeoutMs, clock, signals: [this.#closing.signal, signal], reason }, action)
  }
}
