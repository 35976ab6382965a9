import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { clockDelay } from '../../../lib/pause.ts'
import { abortable } from '../../../lib/signals.ts'

export interface AnswerCacheOptions<Answer> {
  /** life of an answer, from the moment of the question, in ms */
  readonly ttlMs: number
  /** life of a refusal, in ms */
  readonly errorTtlMs: number
  /** whether a failure is an answer: a refusal that will be the same for a while */
  isRefusal(error: KasError): boolean
  /** after any other failure nobody asks for this key again before so long, in ms */
  pauseMs(error: KasError): number
  /** an answer came that is kept */
  onAnswer?(key: string): void
  /** a refusal came where an answer had been */
  onLost?(answer: Answer): void
  /** answers at once; the longest unused one makes room */
  readonly maxAnswers?: number
  /** what all answers may take, roughly; the longest unused one makes room, and its key stays known */
  readonly maxBytes?: number
  /** refusals at once, apart from the answers: callers with made-up tokens push out no good ones */
  readonly maxRefusals?: number
  /** questions at once; more are refused. Half of them may be about keys that were never answered */
  readonly maxAsking?: number
}

const defaults = { maxAnswers: 20_000, maxBytes: 64 << 20, maxRefusals: 10_000, maxAsking: 20_000 }

/** Of what all answers may take, that one may: a larger one would drop too many others, and is not kept. */
const largestPart = 1 / 8

/** Of what may be kept, up to which others' answers are kept too. */
const learntPart = 1 / 2

/** Of the questions at once, about keys that were never answered: anybody can make them up. */
const strangersPart = 1 / 2

/** Of an object or a list, and of each of its members */
const objectBytes = 32
const memberBytes = 16

/** In ms since 1970; it begins with the question. */
interface Life {
  readonly from: number
  readonly until: number
}

/** Asks for a value; `isKnown`: there was an answer for this key before, and no refusal since. */
type Ask<T> = (signal: AbortSignal, isKnown: boolean) => Promise<T>

interface Asking<T> {
  readonly promise: Promise<T>
  readonly controller: AbortController
  /** there was no answer for its key before */
  readonly isStranger: boolean
  callers: number
}

/**
 * Answers by key, kept for their lifetimes; one question for one key at a time, however many want the answer. Keys
 * are hashes: nothing here is a secret.
 */
export class AnswerCache<T> {
  readonly #clock: Clock
  readonly #options: AnswerCacheOptions<T> & typeof defaults
  /** also when they have expired: who was known once is no stranger */
  readonly #answers = new Map<string, Life & { readonly value: T; readonly bytes: number }>()
  /** of `#answers`, those that somebody else was given, and nobody was here: the oldest first */
  readonly #learnt = new Set<string>()
  #bytes = 0
  /** keys whose answers were too much to keep */
  readonly #known = new Map<string, true>()
  readonly #refusals = new Map<string, Life & { readonly error: KasError }>()
  readonly #pauses = new Map<string, Life>()
  readonly #asking = new Map<string, Asking<T>>()
  /** of these questions, those about strangers */
  #strangers = 0

  constructor(components: { clock: Clock }, options: AnswerCacheOptions<T>) {
    this.#clock = components.clock
    this.#options = { ...defaults, ...options }
  }

  /**
   * What is kept for `key`, else what `ask` gives. The signal of `ask` aborts once nobody wants the answer any more.
   *
   * @param maxAgeMs - an answer that was asked for before that is not good enough; it stays for others
   * @throws what is kept as a refusal, what `ask` threw, KasError GITLAB_BUSY, or the reason of `signal`
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

  /** How long an answer, no refusal, is kept yet, in ms. */
  keptMs(key: string): number {
    return this.#leftMs(this.#answers.get(key))
  }

  /** Keys of the answers that are kept. */
  *keys(): Generator<string> {
    for (const [key, answer] of this.#answers) if (this.#leftMs(answer) > 0) yield key
  }

  /** What is kept, and when it was asked for: does not count as a use. */
  peek(key: string): { readonly value: T; readonly from: number } | undefined {
    const answer = this.#answers.get(key)
    return answer && this.#leftMs(answer) > 0 ? answer : undefined
  }

  /**
   * An answer that somebody else was given is kept as if it had come here, unless what is known here is newer. It pushes out
   * none that is kept.
   *
   * @param from - when it was asked for
   * @returns whether it is kept
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

  /** Those of others that are over make room for others. */
  #hasRoomToLearn(): boolean {
    const { maxAnswers, maxBytes } = this.#options
    for (const oldest of this.#learnt) {
      if (this.#learnt.size < maxAnswers * learntPart && this.#bytes < maxBytes * learntPart) return true
      if (this.keptMs(oldest) > 0) return false
      this.#forget(oldest)
    }
    return this.#answers.size < maxAnswers && this.#bytes < maxBytes * learntPart
  }

  /** A clock that was put back ends a life: nothing may live longer than it should. */
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

  /** @returns whether it had not ended before */
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

/** What a value made of JSON takes in memory, more or less. */
export function roughBytes(value: unknown): number {
  let bytes = 0
  const rest = [value] // no recursion: who answers decides how deep it is
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

/** The oldest makes room. */
function keep<V>(map: Map<string, V>, key: string, value: V, max: number): void {
  map.delete(key)
  map.set(key, value)
  if (map.size <= max) return
  for (const oldest of map.keys()) {
    map.delete(oldest)
    return
  }
}
