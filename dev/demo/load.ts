import { abortable, delay } from '../../src/lib/signals.ts'
import type { Answer, Caller } from './caller.ts'
import { configMaps, Ledger } from './ledger.ts'

export interface LoadOptions {
  /** a word that only this load has */
  readonly scene: string
  /** callers; each makes so many calls at any time */
  readonly callers: readonly Caller[]
  readonly safe: number
  readonly unsafe: number
}

export interface Report {
  readonly calls: number
  /** time from the fault to the first right answer of a call that began after it */
  readonly firstMs: number
  /** slowest of the calls that ended after it */
  readonly slowest: string
  /**
   * slowest of the calls that could not have been running in the cluster: safe ones, which are repeated, and later ones
   */
  readonly slowestMs: number
  /** a line for each kind */
  readonly failures: readonly string[]
  /** failed calls other than those with a cut answer */
  readonly uncut: number
  /** failed calls that did not reach the cluster */
  readonly repeatable: number
}

interface Called {
  readonly caller: string
  /** as `performance.now()` */
  readonly beganAt: number
  readonly answer: Answer
  readonly right: boolean
}

/** pause of one worker between two unsafe calls: the double keeps 1,000 objects. ms */
const unsafePauseMs = 150
const safePauseMs = 10
/** limit of an error's text. characters */
const maxShown = 400

/**
 * Makes calls of several callers, from `start` to `stop`. Each safe one reads an object with a name of its own that
 * does not exist. The answer contains the name, so that an answer to another call would show.
 */
export class Load {
  readonly #options: LoadOptions
  readonly #safe: Called[] = []
  readonly #unsafe: Called[] = []
  readonly #ledger: Ledger
  readonly #waiting = new Set<{ goal: number; resolve: () => void }>()
  #workers: Promise<void>[] = []
  #stopped = false
  #count = 0

  constructor(options: LoadOptions) {
    this.#options = options
    this.#ledger = new Ledger(options.scene)
  }

  start(): void {
    const { callers, safe, unsafe } = this.#options
    const each = (count: number, work: (caller: Caller) => Promise<void>) =>
      callers.flatMap((caller) => Array.from({ length: count }, () => work(caller)))
    this.#workers = [
      ...each(safe, (caller) => this.#work(this.#safe, safePauseMs, caller, () => this.#read(caller))),
      ...each(unsafe, (caller) => this.#work(this.#unsafe, unsafePauseMs, caller, () => this.#create(caller))),
    ]
  }

  /** Resolves once so many more calls of either kind have been answered. @throws the signal's reason */
  async more(count: number, signal: AbortSignal): Promise<void> {
    const goal = this.#safe.length + this.#unsafe.length + count
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.add({ goal, resolve })
    await abortable(promise, signal)
  }

  /** Resolves once every call has its answer. */
  async stop(): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#workers)
  }

  /** Returns the results of the calls of a kind, with times since `at`. */
  report(at: number, kind: 'safe' | 'unsafe'): Report {
    const called = kind === 'safe' ? this.#safe : this.#unsafe
    const rights = called.filter(({ beganAt, right }) => right && beganAt >= at)
    const firstMs = Math.min(...rights.map(({ beganAt, answer }) => beganAt + answer.tookMs - at))
    const over = called.filter(({ beganAt, answer }) => beganAt + answer.tookMs >= at)
    const slowest = over.toSorted((a, b) => b.answer.tookMs - a.answer.tookMs)[0]
    const failed = called.filter(({ right }) => !right)
    return {
      calls: called.length,
      firstMs,
      slowest: slowest ? timesOf([slowest], at) : 'none',
      slowestMs: Math.max(
        0,
        ...over.filter((call) => kind === 'safe' || call.beganAt >= at).map(({ answer }) => answer.tookMs),
      ),
      failures: summary(failed, at),
      uncut: failed.filter(({ answer }) => !answer.cut).length,
      repeatable: failed.filter(({ answer }) => answer.delivery === 'none').length,
    }
  }

  audit(caller: Caller): Promise<string[]> {
    return this.#ledger.audit(caller)
  }

  async #work(
    into: Called[],
    pauseMs: number,
    caller: Caller,
    call: () => Promise<Omit<Called, 'caller' | 'beganAt'>>,
  ) {
    while (!this.#stopped) {
      const beganAt = performance.now()
      into.push({ caller: caller.name, beganAt, ...(await call()) })
      for (const waiting of this.#waiting) {
        if (this.#safe.length + this.#unsafe.length < waiting.goal) continue
        this.#waiting.delete(waiting)
        waiting.resolve()
      }
      await delay(pauseMs)
    }
  }

  async #read(caller: Caller): Promise<Pick<Called, 'answer' | 'right'>> {
    const name = `none-${++this.#count}`
    const answer = await caller.ask(`${configMaps}/${name}`)
    return { answer, right: answer.status === 404 && answer.body.includes(`"${name}"`) }
  }

  async #create(caller: Caller): Promise<Pick<Called, 'answer' | 'right'>> {
    const answer = await this.#ledger.create(caller)
    return { answer, right: answer.status === 201 }
  }
}

/** Returns one line for all failures with the same text. */
function summary(failed: readonly Called[], at: number): string[] {
  const kinds = Object.groupBy(failed, ({ answer: { status, delivery, body } }) => {
    return `${status || 'no answer'}${delivery ? `, delivery ${delivery}` : ''}: ${messageOf(body).slice(0, maxShown)}`
  })
  return Object.entries(kinds).map(([kind, calls = []]) => `${calls.length} with ${kind} (${timesOf(calls, at)})`)
}

/** Returns the message of a Kubernetes Status, as users see it; else the whole body. */
function messageOf(body: string): string {
  try {
    return String((JSON.parse(body) as { message?: unknown }).message ?? body)
  } catch {
    return body
  }
}

function timesOf(calls: readonly Called[], at: number): string {
  const callers = [...new Set(calls.map(({ caller }) => caller))].join(', ')
  const [began, took] = [calls.map(({ beganAt }) => beganAt - at), calls.map(({ answer }) => answer.tookMs)].map(range)
  return `through ${callers}, begun at ${began}, took ${took}`
}

function range(values: readonly number[]): string {
  const [least, most] = [Math.min(...values), Math.max(...values)].map(Math.round)
  return least === most ? `${least} ms` : `${least} to ${most} ms`
}
