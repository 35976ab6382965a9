import type { Clock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import { JobThread } from '../../lib/worker-host.ts'
import { type ConfigurationMetrics, noConfigurationMetrics } from './configuration-metrics.ts'
import type { ParsingAnswer, ParsingJob } from './parsing-answer.ts'

export interface ParsingThreadOptions {
  /** program that calls `answerJobs` */
  readonly program: URL
  /** size of the largest file */
  readonly maxFileBytes: number
  /** bound of one file. ms */
  readonly timeLimitMs?: number
  /** bound of the heap. MiB */
  readonly memoryLimitMb?: number
  /** time without a job after which the thread ends. ms */
  readonly idleMs?: number
}

/** Twenty times the time of the worst known file, since other load may leave the thread little CPU time. */
const defaultTimeLimitMs = 15_000
const defaultIdleMs = 10_000
/** Heap for each byte of a file: 96 MiB for 128 KiB. */
const heapBytesOfByte = 768
const minMemoryLimitMb = 64
const youngGenerationMb = 8
/** Stack as of the main thread, so that it can walk all that is parsed here. */
const stackMb = 1

/**
 * Reads configuration files one after another in a thread of their own, which exists while there is work. A file that
 * takes too much time or memory ends only that thread.
 */
export class ParsingThread {
  readonly #clock: Clock
  readonly #metrics: ConfigurationMetrics
  readonly #options: Required<Omit<ParsingThreadOptions, 'program' | 'maxFileBytes'>>
  readonly #thread: JobThread<ParsingJob, ParsingAnswer>
  readonly #stopped = new AbortController()
  #last: Promise<unknown> = Promise.resolve()

  constructor(
    { clock, metrics = noConfigurationMetrics }: { clock: Clock; metrics?: ConfigurationMetrics },
    { program, maxFileBytes, ...options }: ParsingThreadOptions,
  ) {
    this.#clock = clock
    this.#metrics = metrics
    const heapMb = Math.ceil((maxFileBytes * heapBytesOfByte) / 2 ** 20)
    const memoryLimitMb = Math.max(heapMb, minMemoryLimitMb)
    this.#options = { timeLimitMs: defaultTimeLimitMs, idleMs: defaultIdleMs, memoryLimitMb, ...options }
    const thread = {
      program,
      name: 'configurations',
      label: 'the thread that reads configuration files',
      youngGenerationMb,
      stackMb,
    }
    this.#thread = new JobThread({ clock }, { ...thread, ...this.#options })
  }

  /**
   * Parses a file as `parseAgentConfiguration` does, but returns its errors as a `refusal`.
   *
   * @throws the error that ended the thread; SHUTTING_DOWN
   */
  parse(job: ParsingJob): Promise<ParsingAnswer> {
    const answer = this.#last.then(() => this.#parseNow(job))
    this.#last = answer.catch(() => undefined)
    return answer
  }

  async stop(): Promise<void> {
    this.#stopped.abort(new KasError({ code: 'SHUTTING_DOWN' }))
    await this.#last
    await this.#thread.end()
    await this.#thread.ended()
  }

  #parseNow(job: ParsingJob): Promise<ParsingAnswer> {
    const { timeLimitMs, memoryLimitMb } = this.#options
    const { signal } = this.#stopped
    signal.throwIfAborted()
    const began = this.#clock.now()
    const refused = (limit: 'time' | 'memory', reason: string): ParsingAnswer => {
      this.#metrics.limited(limit)
      const detail = `${job.file}: ${reason}`
      return { refusal: { code: 'CONFIGURATION_INVALID', detail }, costMs: Math.max(0, this.#clock.now() - began) }
    }
    const bytes = new Uint8Array(job.bytes) // a copy in memory of its own, which moves to the thread
    return this.#thread.run<ParsingAnswer>(
      {
        request: { ...job, bytes },
        transfer: [bytes.buffer],
        onAnswer: (answer, { resolve }) => resolve(answer),
        tooLate: () =>
          refused('time', `not read within ${timeLimitMs / 1000} s: it is too large, or nested too deeply`),
        tooLarge: () => refused('memory', `not read with ${memoryLimitMb} MiB of memory: it has too many values`),
      },
      signal,
    )
  }
}
