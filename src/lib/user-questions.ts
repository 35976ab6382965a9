import { Counter } from './counter.ts'
import { KasError, type LimitName } from './errors.ts'
import { SharedRoom } from './shared-room.ts'
import { linkedController } from './signals.ts'

export interface UserQuestionsOptions {
  /** at once, of one user */
  readonly maxOfUser: number
  readonly max: number
  /** names of these two limits */
  readonly names: { readonly ofUser: LimitName; readonly ofUsers: LimitName }
  /** name of these questions in errors: `questions for the agents of a user` */
  readonly what: string
}

/**
 * Bounds questions that users ask at once: each costs more than a call. If there is no room, the user with most
 * questions loses one.
 */
export class UserQuestions {
  readonly #options: UserQuestionsOptions
  /** questions by user, also those that lost their room, until their work has ended */
  readonly #working: Counter<bigint>
  readonly #room: SharedRoom

  constructor(options: UserQuestionsOptions) {
    const { maxOfUser, max, names } = options
    this.#options = options
    this.#working = new Counter({ maxOfKey: maxOfUser })
    this.#room = new SharedRoom({ name: names.ofUsers, limit: max })
  }

  /**
   * Runs `work` in the user's room.
   *
   * @param work - gets a signal that aborts with `signal`, or once another user needs the room
   * @throws KasError TOO_MANY_STREAMS; the error of `work`
   */
  async run<T>(userId: bigint, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { maxOfUser: limit, names, what } = this.#options
    const leave = this.#working.enter(userId)
    if (!leave) throw new KasError({ code: 'TOO_MANY_STREAMS', name: names.ofUser, limit, what })
    const ended = linkedController(signal)
    const end = (reason: KasError) => ended.abort(reason)
    try {
      const hold = this.#room.enter({ key: String(userId) }, { what, end })
      try {
        return await work(ended.signal)
      } finally {
        hold.leave()
      }
    } finally {
      leave()
      ended.dispose()
    }
  }
}
