import { setTimeout as sleep } from 'node:timers/promises'
import type { Answer, Caller } from '../../dev/demo/caller.ts'
import { configMaps, Ledger } from '../../dev/demo/ledger.ts'

export interface LoadOptions {
  /** a word that only this load has */
  readonly name: string
  readonly callers: readonly Caller[]
  /** calls at once of each caller, on as many connections */
  readonly safe: number
  readonly unsafe: number
  /** pause between an answer and the next safe call of a worker. ms */
  readonly safePauseMs: number
}

/** One call, as its caller saw it; times as `performance.now()`. */
export interface Called {
  readonly entry: string
  readonly safety: 'safe' | 'unsafe'
  readonly beganAt: number
  readonly endedAt: number
  readonly answer: Answer
  /** true if the answer is that of this call */
  readonly isRight: boolean
}

/** pause between unsafe calls: the API double keeps 1,000 objects. ms */
const unsafePauseMs = 150

/** Endless calls of several callers, without repeats. */
export class Load {
  readonly called: Called[] = []
  readonly #options: LoadOptions
  readonly #ledger: Ledger
  #workers: Promise<void>[] = []
  #isStopped = false
  #count = 0

  constructor(options: LoadOptions) {
    this.#options = options
    this.#ledger = new Ledger(options.name)
  }

  start(): void {
    const { callers, safe, unsafe } = this.#options
    this.#workers = callers.flatMap((caller) => [
      ...Array.from({ length: safe }, () => this.#work(caller, 'safe')),
      ...Array.from({ length: unsafe }, () => this.#work(caller, 'unsafe')),
    ])
  }

  /**
   * Resolves once each caller has got a right answer to a call that began after `at`.
   *
   * @throws Error after `limitMs`
   */
  async succeeded(at: number, limitMs: number): Promise<void> {
    const entries = this.#options.callers.map(({ name }) => name)
    const missing = () => entries.filter((entry) => firstSuccess(this.called, entry, at) === undefined)
    for (const end = at + limitMs; missing().length > 0; await sleep(lookAgainMs)) {
      if (performance.now() > end) throw new Error(`no call through ${missing().join(', ')} succeeds`)
    }
  }

  /** Resolves once every call has its answer. */
  async stop(): Promise<void> {
    this.#isStopped = true
    await Promise.all(this.#workers)
  }

  /** Calls that were delivered twice, or answered and lost, a line each. */
  audit(caller: Caller): Promise<string[]> {
    return this.#ledger.audit(caller)
  }

  async #work(caller: Caller, safety: Called['safety']): Promise<void> {
    while (!this.#isStopped) {
      const beganAt = performance.now()
      const { answer, isRight } = await (safety === 'safe' ? this.#read(caller) : this.#create(caller))
      this.called.push({ entry: caller.name, safety, beganAt, endedAt: performance.now(), answer, isRight })
      await sleep(safety === 'safe' ? this.#options.safePauseMs : unsafePauseMs)
    }
  }

  /** Reads an object with a name of its own that does not exist: the answer contains the name. */
  async #read(caller: Caller): Promise<Pick<Called, 'answer' | 'isRight'>> {
    const name = `none-${++this.#count}`
    const answer = await caller.ask(`${configMaps}/${name}`)
    return { answer, isRight: answer.status === 404 && answer.body.includes(`"${name}"`) }
  }

  async #create(caller: Caller): Promise<Pick<Called, 'answer' | 'isRight'>> {
    const answer = await this.#ledger.create(caller)
    return { answer, isRight: answer.status === 201 }
  }
}

const lookAgainMs = 20

/** Time from `at` to the first right answer through `entry` to a call that began after it. ms */
export function firstSuccess(called: readonly Called[], entry: string, at: number): number | undefined {
  const ends = called.flatMap((call) =>
    call.entry === entry && call.isRight && call.beganAt >= at ? [call.endedAt - at] : [],
  )
  return ends.length > 0 ? Math.min(...ends) : undefined
}
