import { extname } from 'node:path'
import { type TransferListItem, Worker } from 'node:worker_threads'
import type { Clock } from './clock.ts'
import { Deadline } from './deadline.ts'
import { abortable } from './signals.ts'

export interface WorkerOptions {
  readonly program: URL
  /** name of the thread */
  readonly name: string
  /** name in errors */
  readonly label: string
  /** bound of the heap's old generation. MiB */
  readonly memoryLimitMb: number
  readonly youngGenerationMb: number
  /** absent: Node's. MiB */
  readonly stackMb?: number
  readonly workerData?: unknown
}

export interface WorkerEvents<Answer> {
  readonly onMessage: (answer: Answer) => void
  /** Called once, unless `end` was called before: the thread has ended by itself, or its message cannot be read. */
  readonly onEnded: (error: Error) => void
}

/** URL of a program beside the module of this URL: .ts in the tree, .js in an installation. */
export function programBeside(moduleUrl: string, name: string): URL {
  return new URL(`./${name}${extname(moduleUrl)}`, moduleUrl)
}

/** A thread that runs a program within a bound of memory. Above it only the thread ends. */
export class WorkerHost<Request, Answer> {
  readonly #worker: Worker
  #hasEnded = false
  #terminated: Promise<void> | undefined

  constructor(options: WorkerOptions, { onMessage, onEnded }: WorkerEvents<Answer>) {
    const { program, name, label, memoryLimitMb, youngGenerationMb, stackMb, workerData } = options
    const worker = new Worker(program, {
      name,
      workerData,
      resourceLimits: {
        maxOldGenerationSizeMb: memoryLimitMb,
        maxYoungGenerationSizeMb: youngGenerationMb,
        ...(stackMb === undefined ? {} : { stackSizeMb: stackMb }),
      },
    })
    const ended = (error: Error) => {
      if (this.#hasEnded) return
      this.#hasEnded = true
      onEnded(error)
    }
    worker.on('message', (answer: Answer) => {
      if (!this.#hasEnded) onMessage(answer)
    })
    worker.on('error', ended)
    worker.on('messageerror', ended)
    worker.on('exit', (status) => ended(new Error(`${label} ended with ${status}`)))
    this.#worker = worker
  }

  post(request: Request, transfer: readonly TransferListItem[] = []): void {
    this.#worker.postMessage(request, transfer)
  }

  /** Sets whether the thread keeps the program running. */
  keepAlive(isNeeded: boolean): void {
    if (isNeeded) this.#worker.ref()
    else this.#worker.unref()
  }

  /** Ends the thread, also during work. Resolves once its memory is free. */
  end(): Promise<void> {
    this.#hasEnded = true
    this.keepAlive(true) // the program waits for the end
    this.#terminated ??= this.#worker.terminate().then(() => undefined)
    return this.#terminated
  }
}

export interface JobThreadOptions extends WorkerOptions {
  /** bound of one job. ms */
  readonly timeLimitMs: number
  /** time without a job after which the thread ends. ms */
  readonly idleMs: number
}

/** Steps that a job may take while it runs. */
export interface RunningJob<Request, Result> {
  readonly post: (request: Request) => void
  readonly resolve: (result: Result) => void
  /** The next job gets another thread, with fresh memory. */
  readonly endThread: () => void
}

export interface ThreadJob<Request, Answer, Result> {
  readonly request: Request
  /** moved to the thread, and empty here from then on */
  readonly transfer?: readonly TransferListItem[]
  /** An error that it throws ends the job, and the thread. */
  readonly onAnswer: (answer: Answer, running: RunningJob<Request, Result>) => void
  /** makes the result once the job's time is over; it may throw */
  readonly tooLate: () => Result
  /** makes the result once the job has used too much memory; it may throw */
  readonly tooLarge: () => Result
}

interface Running<Answer> {
  readonly onAnswer: (answer: Answer) => void
  readonly reject: (error: unknown) => void
}

/**
 * A thread for one job at a time, which exists while there are jobs. A job that takes too much ends only this thread.
 */
export class JobThread<Request, Answer> {
  readonly #clock: Clock
  readonly #options: JobThreadOptions
  #host: WorkerHost<Request, Answer> | undefined
  #running: Running<Answer> | undefined
  readonly #ending = new Set<Promise<void>>()
  #cancelIdle = () => {}

  constructor({ clock }: { readonly clock: Clock }, options: JobThreadOptions) {
    this.#clock = clock
    this.#options = options
  }

  /**
   * Runs a job. The caller waits for the end of the last one before.
   *
   * @throws the error that ended the thread, an error of `job`, or the signal's reason
   */
  async run<Result>(job: ThreadJob<Request, Answer, Result>, signal: AbortSignal): Promise<Result> {
    if (this.#running) throw new Error(`${this.#options.label} has a job`)
    const { timeLimitMs, idleMs } = this.#options
    const clock = this.#clock
    this.#cancelIdle()
    const host = this.#host ?? this.#begin()
    const { promise, resolve, reject } = Promise.withResolvers<Result>()
    const own = { post: (request: Request) => host.post(request), resolve, endThread: () => void this.#endHost() }
    this.#running = { onAnswer: (answer) => job.onAnswer(answer, own), reject }
    const deadline = new Deadline({ ms: timeLimitMs, clock, signals: [signal] })
    try {
      host.keepAlive(true)
      host.post(job.request, job.transfer)
      return await abortable(promise, deadline.signal)
    } catch (error) {
      void this.#endHost() // it may still be at work
      if (deadline.isPast) return job.tooLate()
      if ((error as { code?: unknown }).code === 'ERR_WORKER_OUT_OF_MEMORY') return job.tooLarge()
      throw error
    } finally {
      deadline.end()
      this.#running = undefined
      if (this.#host) {
        host.keepAlive(false) // an idle thread keeps no program running
        this.#cancelIdle = clock.after(idleMs, () => void this.#endHost())
      }
    }
  }

  /** Ends the thread, also during work: a running job fails. The next one gets another thread. */
  async end(): Promise<void> {
    this.#running?.reject(new Error(`${this.#options.label} was ended`))
    await this.#endHost()
  }

  async #endHost(): Promise<void> {
    this.#cancelIdle()
    const host = this.#host
    this.#host = undefined
    if (!host) return
    const ended = host.end().then(() => void this.#ending.delete(ended))
    this.#ending.add(ended)
    await ended
  }

  /** Resolves once ending threads have freed their memory. */
  async ended(): Promise<void> {
    await Promise.all(this.#ending)
  }

  #begin(): WorkerHost<Request, Answer> {
    const host = new WorkerHost<Request, Answer>(this.#options, {
      onMessage: (answer) => {
        const running = this.#running
        if (this.#host !== host || !running) return
        try {
          running.onAnswer(answer)
        } catch (error) {
          running.reject(error)
        }
      },
      onEnded: (error) => {
        if (this.#host !== host) return
        this.#running?.reject(error)
        void this.#endHost()
      },
    })
    this.#host = host
    return host
  }
}
