import { Counter } from './counter.ts'
import { KasError, type LimitName } from './errors.ts'

export interface UserQuestionsOptions {
  /** at once, of one user and of all at this replica */
  readonly maxOfUser: number
  readonly max: number
  /** of these two limits */
  readonly names: { readonly ofUser: LimitName; readonly ofUsers: LimitName }
  /** as an error says it: `questions for the agents of a user` */
  readonly what: string
}

/** Questions that users may ask at once: each costs more than a call. */
export class UserQuestions {
  readonly #options: UserQuestionsOptions
  readonly #running: Counter<bigint>

  constructor(options: UserQuestionsOptions) {
    this.#options = options
    this.#running = new Counter({ maxOfKey: options.maxOfUser, max: options.max })
  }

  /** @throws KasError TOO_MANY_STREAMS, and what `work` throws */
  async run<T>(userId: bigint, work: () => Promise<T>): Promise<T> {
    const leave = this.#running.enter(userId)
    if (!leave) throw this.#busy(userId)
    try {
      return await work()
    } finally {
      leave()
    }
  }

  #busy(userId: bigint): KasError {
    const { maxOfUser, max, names, what } = this.#options
    const isOfUser = this.#running.of(userId) >= maxOfUser
    const [name, limit] = isOfUser ? [names.ofUser, maxOfUser] : [names.ofUsers, max]
    return new KasError({ code: 'TOO_MANY_STREAMS', name, limit, what })
  }
}
