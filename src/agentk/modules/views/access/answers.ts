import type { ResourceKind } from '../../../../kubernetes/kind.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { ListRights, resourceKey } from './list-rights.ts'
import { type Answered, listQuestion, type Question, rulesQuestion } from './review-question.ts'

/** Time from a question until its answer no longer counts: 60 s, less 500 ms, as this may be noticed late. ms */
export const deniedAfterMs = 59_500

export const everything = listQuestion('*', '*', '')
/** Rules of any namespace include what is allowed in the whole cluster. */
export const general = rulesQuestion('default')

const everyRight = new ListRights(true, new Set(), new Map())

export interface Answer {
  readonly question: Question
  readonly answered: Answered | 'failed'
  readonly askedAt: number
}

/** Answers of the API server for one caller. Anything unanswered, or answered too long ago, is denied. */
export class Answers {
  readonly #clock: Clock
  readonly #answers = new Map<string, Answer>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The answer may be too old to count. */
  get({ key }: Question): Answer | undefined {
    return this.#answers.get(key)
  }

  set(answer: Answer): void {
    this.#answers.set(answer.question.key, answer)
  }

  /** @param wanted - keys of questions whose answers stay; other answers are removed once they are too old to count */
  forget(wanted: ReadonlySet<string>): void {
    for (const [key, answer] of this.#answers) if (!wanted.has(key) && !this.#counts(answer)) this.#answers.delete(key)
  }

  /** Time at which the next answer stops counting; Infinity: no answer counts. */
  nextEnd(): number {
    let end = Number.POSITIVE_INFINITY
    for (const answer of this.#answers.values()) {
      if (this.#counts(answer)) end = Math.min(end, answer.askedAt + deniedAfterMs)
    }
    return end
  }

  mayList({ key }: Question): boolean {
    const answer = this.#answers.get(key)
    return answer !== undefined && this.#counts(answer) && isAllowed(answer)
  }

  /**
   * True if the rules deny listing the kind.
   *
   * @param rules - a question for rules
   */
  isHidden(rules: Question, { group, plural }: Pick<ResourceKind, 'group' | 'plural'>): boolean {
    const answer = this.#answers.get(rules.key)
    if (!answer || !this.#counts(answer) || answer.answered === 'failed' || !('rules' in answer.answered)) return false
    return answer.answered.rules?.mayAllow('list', group, plural) === false
  }

  /**
   * Returns the rights from all answers that count, also where there are no objects now: objects that come back are
   * visible at once.
   *
   * @param within - bound: no right beyond these is given
   */
  rights(within?: ListRights): ListRights {
    if (this.mayList(everything) && (!within || within.key === everyRight.key)) return everyRight
    const inCluster = new Set<string>()
    const inNamespaces = new Map<string, Set<string>>()
    for (const { question } of this.#answers.values()) {
      if (question.about !== 'list' || !this.mayList(question)) continue
      const { group, resource: plural, namespace } = question
      if (this.isHidden(namespace === '' ? general : rulesQuestion(namespace), { group, plural })) continue
      if (within && !within.mayList({ group, plural }, namespace)) continue
      const resource = resourceKey({ group, plural })
      if (namespace === '') inCluster.add(resource)
      else inNamespaces.set(resource, (inNamespaces.get(resource) ?? new Set()).add(namespace))
    }
    return new ListRights(false, inCluster, inNamespaces)
  }

  #counts({ askedAt }: Answer): boolean {
    return this.#clock.now() < askedAt + deniedAfterMs
  }
}

export function isAllowed({ answered }: Answer): boolean {
  return answered !== 'failed' && 'allowed' in answered && answered.allowed
}
