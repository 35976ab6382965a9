import { Counter } from './counter.ts'
import { KasError, type LimitName } from './errors.ts'
import { SharedRoom } from './shared-room.ts'
import { linkedController } from './signals.ts'

export interface UserQuestionsOptions {
  /** at once, of one user and of all at this replica */
  readonly maxOfUser: number
  readonly max: number
  /** of these two limits */
  readonly names: { readonly ofUser: LimitName; readonly ofUsers: LimitName }
  /** as an error says it: `questions for the agents of a user` */
  readonly what: string
}

/** Questions that users may ask at once: each costs more than a call. Whoever has most makes room for others. */
export class UserQuestions {
  readonly #options: UserQuestionsOptions
  /** also those that have made room, until their work has ended */
  readonly #working: Counter<bigint>
  readonly #room: SharedRoom

  constructor(options: UserQuestionsOptions) {
    const { maxOfUser, max, names } = options
    this.#options = options
    this.#working = new Counter({ maxOfKey: maxOfUser })
    this.#room = new SharedRoom({ name: names.ofUsers, limit: max })
  }

  /**
   * @param work - gets a signal that aborts by `signal`, or where another user needs the room
   * @throws KasError TOO_MANY_STREAMS, and what `work` throws
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
