import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { clockDelay } from '../../../lib/pause.ts'
import { abortable } from '../../../lib/signals.ts'

export interface AnswerCacheOptions<Answer> {
  /** life of an answer, from the question on, in ms */
  readonly ttlMs: number
  /** life of a refusal, in ms */
  readonly errorTtlMs: number
  /** true if a failure is an answer: a refusal, which stays the same for a while */
  isRefusal(error: KasError): boolean
  /** time after any other failure before the same key is asked for again, in ms */
  pauseMs(error: KasError): number
  /** Called after an answer came that is kept. */
  onAnswer?(key: string): void
  /** Called after a refusal came where an answer had been. */
  onLost?(answer: Answer): void
  /** answers at once; the longest unused one makes room */
  readonly maxAnswers?: number
  /** memory of all answers, roughly, in bytes; the longest unused one makes room, and its key stays known */
  readonly maxBytes?: number
  /** refusals at once, apart from the answers: made-up tokens do not push out good ones */
  readonly maxRefusals?: number
  /** questions at once; more are refused. At most half of them are about keys without a previous answer */
  readonly maxAsking?: number
}

const defaults = { maxAnswers: 20_000, maxBytes: 64 << 20, maxRefusals: 10_000, maxAsking: 20_000 }

/** Part of `maxBytes` for one answer. A larger one is not kept: it would push out too many others. */
const largestPart = 1 / 8

/** Part of the bounds up to which answers of other replicas are kept too. */
const learntPart = 1 / 2

/** Part of the questions at once for keys without a previous answer: anyone can make them up. */
const strangersPart = 1 / 2

/** memory of an object or a list, and of each of its members */
const objectBytes = 32
const memberBytes = 16

/** In ms since 1970; begins with the question. */
interface Life {
  readonly from: number
  readonly until: number
}

/** Asks for a value; `isKnown`: this key had an answer before, and no refusal since. */
type Ask<T> = (signal: AbortSignal, isKnown: boolean) => Promise<T>

interface Asking<T> {
  readonly promise: Promise<T>
  readonly controller: AbortController
  /** its key had no answer before */
  readonly isStranger: boolean
  callers: number
}

/**
 * Answers by key, kept for their lifetimes. There is one question per key at a time, however many callers wait for it.
 * Keys are hashes, no secrets.
 */
export class AnswerCache<T> {
  readonly #clock: Clock
  readonly #options: AnswerCacheOptions<T> & typeof defaults
  /** includes expired answers: their keys stay known */
  readonly #answers = new Map<string, Life & { readonly value: T; readonly bytes: number }>()
  /** keys in `#answers` whose answer came from another replica, and was not asked for here; the oldest first */
  readonly #learnt = new Set<string>()
  #bytes = 0
  /** keys whose answers were too large to keep */
  readonly #known = new Map<string, true>()
  readonly #refusals = new Map<string, Life & { readonly error: KasError }>()
  readonly #pauses = new Map<string, Life>()
  readonly #asking = new Map<string, Asking<T>>()
  /** questions about keys without a previous answer */
  #strangers = 0

  constructor(components: { clock: Clock }, options: AnswerCacheOptions<T>) {
    this.#clock = components.clock
    this.#options = { ...defaults, ...options }
  }

  /**
   * Returns the kept answer for `key`, else the result of `ask`. The signal of `ask` aborts once no caller waits any
   * more.
   *
   * @param maxAgeMs - an answer that was asked for earlier is not good enough; it stays for others
   * @throws the kept refusal, errors of `ask`, KasError GITLAB_BUSY, or the reason of `signal`
   */
  async get(key: string, ask: Ask<T>, signal: AbortSignal, maxAgeMs = Number.POSITIVE_INFINITY): Promise<T> {
    signal.throwIfAborted()
    const answer = this.#answers.get(key)
    if (answer && this.#leftMs(answer) > 0 && this.#clock.now() - answer.from < maxAgeMs) {
      this.#answers.delete(key) // to the end: the most recently used
      this.#answers.set(key, answer)
      return answer.value
    }
    const refusal = this.#refusals.get(key)
    if (refusal && this.#leftMs(refusal) > 0) throw refusal.error
    return await this.#join(key, ask, signal)
  }

  /** Returns the remaining life of a kept answer, in ms. A refusal does not count. */
  keptMs(key: string): number {
    return this.#leftMs(this.#answers.get(key))
  }

  /** Lists keys of the kept answers. */
  *keys(): Generator<string> {
    for (const [key, answer] of this.#answers) if (this.#leftMs(answer) > 0) yield key
  }

  /** Returns the kept answer, and when it was asked for. This does not count as a use. */
  peek(key: string): { readonly value: T; readonly from: number } | undefined {
    const answer = this.#answers.get(key)
    return answer && this.#leftMs(answer) > 0 ? answer : undefined
  }

  /**
   * Keeps an answer of another replica, unless the known one is newer. It pushes out no kept answer.
   *
   * @param from - when it was asked for
   * @returns true if it is kept
   */
  learn(key: string, value: T, from: number): boolean {
    const isNewer = (known: Life | undefined) => known !== undefined && known.from >= from
    if (isNewer(this.#answers.get(key)) || isNewer(this.#refusals.get(key))) return false
    if (this.#leftMs({ from, until: from + this.#options.ttlMs }) === 0) return false
    if (!this.#answers.has(key) && !this.#hasRoomToLearn()) return false
    const isOwn = this.#answers.has(key) && !this.#learnt.has(key)
    this.#refusals.delete(key)
    this.#keepAnswer(key, value, from)
    if (!isOwn) this.#learnt.add(key)
    return true
  }

  /** Drops expired answers of other replicas. @returns true if there is room for another one */
  #hasRoomToLearn(): boolean {
    const { maxAnswers, maxBytes } = this.#options
    for (const oldest of this.#learnt) {
      if (this.#learnt.size < maxAnswers * learntPart && this.#bytes < maxBytes * learntPart) return true
      if (this.keptMs(oldest) > 0) return false
      this.#forget(oldest)
    }
    return this.#answers.size < maxAnswers && this.#bytes < maxBytes * learntPart
  }

  /** Returns the remaining life. A clock that was set back ends a life: none may last longer than it should. */
  #leftMs(life: Life | undefined): number {
    const now = this.#clock.now()
    return life && now >= life.from ? Math.max(0, life.until - now) : 0
  }

  async #join(key: string, ask: Ask<T>, signal: AbortSignal): Promise<T> {
    const asking = this.#asking.get(key) ?? this.#begin(key, ask)
    asking.callers += 1
    try {
      return await abortable(asking.promise, signal)
    } finally {
      asking.callers -= 1
      if (asking.callers === 0 && this.#end(key, asking)) asking.controller.abort(new KasError({ code: 'CANCELLED' }))
    }
  }

  #begin(key: string, ask: Ask<T>): Asking<T> {
    const { maxAsking } = this.#options
    const isStranger = !this.#isKnown(key)
    const isFull = this.#asking.size >= maxAsking || (isStranger && this.#strangers >= maxAsking * strangersPart)
    if (isFull) throw new KasError({ code: 'GITLAB_BUSY', waitedMs: 0 })
    const controller = new AbortController()
    const asking = { promise: this.#ask(key, ask, controller.signal), controller, isStranger, callers: 0 }
    this.#asking.set(key, asking)
    if (isStranger) this.#strangers += 1
    const end = () => this.#end(key, asking)
    asking.promise.then(end, end)
    return asking
  }

  /** @returns true if it had not ended before */
  #end(key: string, asking: Asking<T>): boolean {
    if (this.#asking.get(key) !== asking) return false
    this.#asking.delete(key)
    if (asking.isStranger) this.#strangers -= 1
    return true
  }

  #isKnown(key: string): boolean {
    return this.#answers.has(key) || this.#known.has(key)
  }

  async #ask(key: string, ask: Ask<T>, signal: AbortSignal): Promise<T> {
    const pauseMs = this.#leftMs(this.#pauses.get(key))
    if (pauseMs > 0) await clockDelay(this.#clock, pauseMs, signal)
    this.#pauses.delete(key)
    const askedAt = this.#clock.now()
    try {
      const value = await ask(signal, this.#isKnown(key))
      this.#refusals.delete(key)
      this.#keepAnswer(key, value, askedAt)
      this.#options.onAnswer?.(key)
      return value
    } catch (failure) {
      if (!signal.aborted) this.#failed(key, KasError.from(failure), askedAt)
      throw failure
    }
  }

  #keepAnswer(key: string, value: T, from: number): void {
    const { ttlMs, maxAnswers, maxBytes } = this.#options
    const bytes = roughBytes(value)
    this.#forget(key)
    if (bytes > maxBytes * largestPart) return void keep(this.#known, key, true, maxAnswers)
    this.#answers.set(key, { value, bytes, from, until: from + ttlMs })
    this.#bytes += bytes
    for (const oldest of this.#answers.keys()) {
      const isFull = this.#answers.size > maxAnswers
      if (!isFull && this.#bytes <= maxBytes) return
      this.#forget(oldest)
      if (!isFull) keep(this.#known, oldest, true, maxAnswers)
    }
  }

  #forget(key: string): void {
    this.#known.delete(key)
    this.#bytes -= this.#answers.get(key)?.bytes ?? 0
    this.#answers.delete(key)
    this.#learnt.delete(key)
  }

  #failed(key: string, error: KasError, askedAt: number): void {
    const { errorTtlMs, maxRefusals } = this.#options
    if (this.#options.isRefusal(error)) {
      const lost = this.#answers.get(key)
      this.#forget(key)
      if (errorTtlMs > 0) keep(this.#refusals, key, { error, from: askedAt, until: askedAt + errorTtlMs }, maxRefusals)
      if (lost) this.#options.onLost?.(lost.value)
      return
    }
    const pauseMs = this.#options.pauseMs(error)
    const from = this.#clock.now()
    if (pauseMs > 0) keep(this.#pauses, key, { from, until: from + pauseMs }, maxRefusals)
  }
}

/** Returns the approximate memory of a JSON value, in bytes. */
export function roughBytes(value: unknown): number {
  let bytes = 0
  const rest = [value] // no recursion: the sender decides about the depth
  while (rest.length > 0) {
    const next = rest.pop()
    bytes += memberBytes
    if (typeof next === 'string') bytes += 2 * next.length
    if (typeof next !== 'object' || next === null) continue
    bytes += objectBytes
    for (const member of Object.values(next)) rest.push(member)
  }
  return bytes
}

/** Adds an entry; the oldest makes room. */
function keep<V>(map: Map<string, V>, key: string, value: V, max: number): void {
  map.delete(key)
  map.set(key, value)
  if (map.size <= max) return
  for (const oldest of map.keys()) {
    map.delete(oldest)
    return
  }
}
