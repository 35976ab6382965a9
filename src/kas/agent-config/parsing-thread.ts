import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { Clock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import { abortable } from '../../lib/signals.ts'
import { type ConfigurationMetrics, noConfigurationMetrics } from './configuration-metrics.ts'
import type { ParsingAnswer, ParsingJob } from './parsing-answer.ts'

export interface ParsingThreadComponents {
  readonly clock: Clock
  readonly metrics?: ConfigurationMetrics
}

export interface ParsingThreadOptions {
  /** of the largest file */
  readonly maxFileBytes: number
  /** for one file, in ms */
  readonly timeLimitMs?: number
  /** of the heap, in MiB */
  readonly memoryLimitMb?: number
  /** a thread that has nothing to do ends after this time, in ms */
  readonly idleMs?: number
}

/** Twenty times what the worst file that is known needs, as other load may leave the thread little of a processor. */
const defaultTimeLimitMs = 15_000
const defaultIdleMs = 10_000
/** 96 MiB for 128 KiB. */
const heapBytesOfByte = 768
const minMemoryLimitMb = 64
const youngGenerationMb = 8
/** As the main thread's: what can be read here can be walked there. */
const stackMb = 1

interface Running {
  readonly worker: Worker
  readonly answer: PromiseWithResolvers<ParsingAnswer>
}

/**
 * Reads configuration files one after another in a thread of their own, which exists while there is work: a file that
 * takes too long, or too much memory, ends that thread and nothing else.
 */
export class ParsingThread {
  readonly #clock: Clock
  readonly #metrics: ConfigurationMetrics
  readonly #options: Required<Omit<ParsingThreadOptions, 'maxFileBytes'>>
  readonly #stopped = new AbortController()
  #worker: Worker | undefined
  #running: Running | undefined
  #last: Promise<unknown> = Promise.resolve()
  readonly #ending = new Set<Promise<void>>()
  #cancelIdle = () => {}

  constructor(
    { clock, metrics = noConfigurationMetrics }: ParsingThreadComponents,
    { maxFileBytes, ...options }: ParsingThreadOptions,
  ) {
    this.#clock = clock
    this.#metrics = metrics
    const heapMb = Math.ceil((maxFileBytes * heapBytesOfByte) / 2 ** 20)
    const memoryLimitMb = Math.max(heapMb, minMemoryLimitMb)
    this.#options = { timeLimitMs: defaultTimeLimitMs, idleMs: defaultIdleMs, memoryLimitMb, ...options }
  }

  /**
   * As `parseAgentConfiguration`, but what that throws is a `refusal`.
   *
   * @throws what ended the thread; SHUTTING_DOWN
   */
  parse(job: ParsingJob): Promise<ParsingAnswer> {
    const answer = this.#last.then(() => this.#parseNow(job))
    this.#last = answer.catch(() => undefined)
    return answer
  }

  async stop(): Promise<void> {
    this.#stopped.abort(new KasError({ code: 'SHUTTING_DOWN' }))
    await this.#last
    await this.#end()
    await Promise.all(this.#ending)
  }

  async #parseNow(job: ParsingJob): Promise<ParsingAnswer> {
    const { timeLimitMs, memoryLimitMb, idleMs } = this.#options
    this.#stopped.signal.throwIfAborted()
    this.#cancelIdle()
    const worker = this.#worker ?? this.#begin()
    worker.ref()
    const answer = Promise.withResolvers<ParsingAnswer>()
    const began = this.#clock.now()
    const refused = (limit: 'time' | 'memory', reason: string): ParsingAnswer => {
      this.#metrics.limited(limit)
      const detail = `${job.file}: ${reason}`
      return { refusal: { code: 'CONFIGURATION_INVALID', detail }, costMs: Math.max(0, this.#clock.now() - began) }
    }
    const cancelLimit = this.#clock.after(timeLimitMs, () => {
      answer.resolve(refused('time', `not read within ${timeLimitMs / 1000} s: it is too large, or nested too deeply`))
      void this.#end()
    })
    this.#running = { worker, answer }
    const bytes = new Uint8Array(job.bytes) // alone in its memory, which goes with it
    worker.postMessage({ ...job, bytes }, [bytes.buffer])
    try {
      return await abortable(answer.promise, this.#stopped.signal)
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'ERR_WORKER_OUT_OF_MEMORY') throw error
      return refused('memory', `not read with ${memoryLimitMb} MiB of memory: it has too many values`)
    } finally {
      cancelLimit()
      worker.unref() // a thread that waits keeps no program alive
      this.#running = undefined
      this.#cancelIdle = this.#clock.after(idleMs, () => void this.#end())
    }
  }

  #begin(): Worker {
    // the program lies beside this file: .ts in the tree, .js where it is installed
    const program = new URL(`./parsing-thread-program${extname(import.meta.url)}`, import.meta.url)
    const worker = new Worker(program, {
      name: 'configurations',
      resourceLimits: {
        maxOldGenerationSizeMb: this.#options.memoryLimitMb,
        maxYoungGenerationSizeMb: youngGenerationMb,
        stackSizeMb: stackMb,
      },
    })
    const failed = (error: unknown) => {
      if (this.#running?.worker === worker) this.#running.answer.reject(error)
      if (this.#worker === worker) void this.#end()
    }
    worker.on('message', (answer: ParsingAnswer) => {
      if (this.#running?.worker === worker) this.#running.answer.resolve(answer)
    })
    worker.on('error', failed)
    worker.on('messageerror', failed)
    worker.on('exit', (status) => failed(new Error(`the thread that reads configuration files ended with ${status}`)))
    this.#worker = worker
    return worker
  }

  async #end(): Promise<void> {
    this.#cancelIdle()
    const worker = this.#worker
    this.#worker = undefined
    if (!worker) return
    const ended = worker.terminate().then(() => void this.#ending.delete(ended))
    this.#ending.add(ended)
    await ended
  }
}
