import type { Clock } from '../../../../lib/clock.ts'
import { withDeadline } from '../../../../lib/deadline.ts'
import { KasError } from '../../../../lib/errors.ts'
import { abortable } from '../../../../lib/signals.ts'
import type { Caller } from '../../../caller.ts'
import { type AccessAttributes, mayAccess, rulesIn } from '../../../cluster/access-review.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import type { Identities } from '../../../cluster/identities.ts'
import type { SharedKinds } from '../live/shared-kinds.ts'

/** Limit of callers whose answers are kept; the one that asked first makes room. */
const maxCallers = 1000
/** Limit of the answers that are kept for one caller. */
const maxAnswers = 500
/** Time for which an answer counts. ms */
const answerMs = 60_000
/** Limit of one question, with its wait for a turn. ms */
const questionMs = 10_000

/** Limit of an answer about the rules of a namespace. bytes */
const maxRulesBytes = 1024 * 1024

/** Objects of one kind in one namespace. */
export interface Subject {
  readonly group: string
  /** with `*` as group: of any kind */
  readonly kind: string
  /** empty: the kind has none */
  readonly namespace: string
  /** of the kind in the API; absent: the one that is served now */
  readonly plural?: string
  /** absent: objects of any name */
  readonly name?: string
}

/** Verbs that are asked about. */
export type AskedVerb = Extract<AccessAttributes['verb'], 'get' | 'patch'>

export interface ObjectRightsComponents {
  /** acts as agentk itself: a question has the headers of its caller */
  readonly lane: ApiLane
  readonly kinds: Pick<SharedKinds, 'current'>
  readonly identities: Pick<Identities, 'headers'>
  readonly clock: Clock
  /** ends questions that callers share; each caller has its own signal */
  readonly signal: AbortSignal
}

interface Answer {
  readonly askedAt: number
  readonly mayGet: Promise<boolean>
}

/** Decides which objects callers may see: those that they may get. The API server is asked, as the caller. */
export class ObjectRights {
  readonly #components: ObjectRightsComponents
  /** by the caller's headers, then by subject */
  readonly #answers = new Map<string, Map<string, Answer>>()

  constructor(components: ObjectRightsComponents) {
    this.#components = components
  }

  /**
   * Returns for each subject if the caller may get its objects. One of a kind that nobody serves has no resource: it is
   * for who may get all resources of its group.
   *
   * @throws KasError FORBIDDEN: the caller has no name; IDENTITY_REFUSED; Error: the API server gave no answer
   */
  mayGet(caller: Caller, subjects: readonly Subject[], signal: AbortSignal): Promise<boolean[]> {
    return this.may('get', caller, subjects, signal)
  }

  /**
   * Returns the same for another verb.
   *
   * @param headers - further headers of the requests: name, value, name, value. @throws as `mayGet`
   */
  async may(
    verb: AskedVerb,
    caller: Caller,
    subjects: readonly Subject[],
    signal: AbortSignal,
    headers: readonly string[] = [],
  ): Promise<boolean[]> {
    const own = this.#headersOf(caller)
    const answers = this.#answersOf(JSON.stringify([caller.as, own]))
    const kinds = await this.#components.kinds.current(signal)
    const asking = { verb, headers: [...own, ...headers] }
    return await Promise.all(
      subjects.map((subject) => {
        const plural = subject.plural ?? kinds.find(subject)?.plural ?? '*'
        return abortable(this.#ask(answers, { ...subject, plural }, asking), signal)
      }),
    )
  }

  /**
   * Returns the SelfSubjectRulesReview of a namespace: it names objects that the caller may get by their names.
   *
   * @param headers - as of `may`. @throws as `mayGet`
   */
  async rules(
    caller: Caller,
    namespace: string,
    signal: AbortSignal,
    headers: readonly string[] = [],
  ): Promise<unknown> {
    const { lane, clock } = this.#components
    const options = { headers: [...this.#headersOf(caller), ...headers], maxBytes: maxRulesBytes }
    return await withDeadline({ ms: questionMs, clock, signals: [signal] }, (limited) =>
      rulesIn(lane, namespace, options, limited),
    )
  }

  #headersOf(caller: Caller): readonly string[] {
    const user = caller.as === 'user' ? caller.user : undefined
    // without a name there are no headers, and agentk would ask for itself
    if (user && !user.username) throw new KasError({ code: 'FORBIDDEN', reason: 'the caller has no name' })
    return this.#components.identities.headers(user)
  }

  #answersOf(caller: string): Map<string, Answer> {
    const known = this.#answers.get(caller)
    if (known) return known
    const [oldest] = this.#answers.keys()
    if (this.#answers.size >= maxCallers && oldest !== undefined) this.#answers.delete(oldest)
    const answers = new Map<string, Answer>()
    this.#answers.set(caller, answers)
    return answers
  }

  #ask(
    answers: Map<string, Answer>,
    { group, plural: resource, namespace, name }: Omit<Subject, 'kind'> & { readonly plural: string },
    { verb, headers }: { readonly verb: AskedVerb; readonly headers: readonly string[] },
  ): Promise<boolean> {
    const { lane, clock, signal: ended } = this.#components
    const key = JSON.stringify([verb, group, resource, namespace, name])
    const known = answers.get(key)
    // the clock may be set back: an answer counts no longer for it
    if (known && Math.abs(clock.now() - known.askedAt) < answerMs) return known.mayGet
    const [oldest] = answers.keys()
    if (answers.size >= maxAnswers && oldest !== undefined) answers.delete(oldest)
    const mayGet = withDeadline({ ms: questionMs, clock, signals: [ended] }, (signal) =>
      mayAccess(lane, { verb, group, resource, namespace, ...(name !== undefined && { name }) }, { headers }, signal),
    )
    answers.set(key, { askedAt: clock.now(), mayGet })
    mayGet.catch(() => answers.delete(key)) // the caller of this method has the error
    return mayGet
  }
}
