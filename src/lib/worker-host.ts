import { extname } from 'node:path'
import { type TransferListItem, Worker } from 'node:worker_threads'
import type { Clock } from './clock.ts'
import { Deadline } from './deadline.ts'
import { abortable } from './signals.ts'

export interface WorkerOptions {
  readonly program: URL
  /** of the thread */
  readonly name: string
  /** what errors call it */
  readonly label: string
  /** of the heap's old generation, and of the young one. MiB */
  readonly memoryLimitMb: number
  readonly youngGenerationMb: number
  /** absent: Node's. MiB */
  readonly stackMb?: number
  readonly workerData?: unknown
}

export interface WorkerEvents<Answer> {
  readonly onMessage: (answer: Answer) => void
  /** Once, unless `end` was called before: it has ended by itself, or what it sent cannot be read. */
  readonly onEnded: (error: Error) => void
}

/** A program that lies beside the module of this URL: .ts in the tree, .js where it is installed. */
export function programBeside(moduleUrl: string, name: string): URL {
  return new URL(`./${name}${extname(moduleUrl)}`, moduleUrl)
}

/** A thread that runs a program within a bound of memory: beyond it the thread ends, and nothing else. */
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

  /** Whether it keeps the program alive. */
  keepAlive(isNeeded: boolean): void {
    if (isNeeded) this.#worker.ref()
    else this.#worker.unref()
  }

  /** Whatever it does. Resolves once it has given back its memory. */
  end(): Promise<void> {
    this.#hasEnded = true
    this.keepAlive(true) // its end is waited for
    this.#terminated ??= this.#worker.terminate().then(() => undefined)
    return this.#terminated
  }
}

export interface JobThreadOptions extends WorkerOptions {
  /** for one job. ms */
  readonly timeLimitMs: number
  /** a thread that has nothing to do ends after this time. ms */
  readonly idleMs: number
}

/** What a job may do while it runs. */
export interface RunningJob<Request, Result> {
  readonly post: (request: Request) => void
  readonly resolve: (result: Result) => void
  /** The next job has another thread, and this one's memory. */
  readonly endThread: () => void
}

export interface ThreadJob<Request, Answer, Result> {
  readonly request: Request
  /** goes to the thread, and is not there any more */
  readonly transfer?: readonly TransferListItem[]
  /** What it throws ends the job, and the thread. */
  readonly onAnswer: (answer: Answer, running: RunningJob<Request, Result>) => void
  /** the result once its time is over, if it does not throw */
  readonly tooLate: () => Result
  /** the same once it has taken too much memory */
  readonly tooLarge: () => Result
}

interface Running<Answer> {
  readonly onAnswer: (answer: Answer) => void
  readonly reject: (error: unknown) => void
}

/** A thread for one job at a time, which exists while there are some: one that takes too much ends it, and nothing else. */
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
   * Not before the last one has ended.
   *
   * @throws what ended the thread, what `job` throws, or the signal's reason
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
      void this.#endHost() // it may be at work still
      if (deadline.isPast) return job.tooLate()
      if ((error as { code?: unknown }).code === 'ERR_WORKER_OUT_OF_MEMORY') return job.tooLarge()
      throw error
    } finally {
      deadline.end()
      this.#running = undefined
      if (this.#host) {
        host.keepAlive(false) // a thread that waits keeps no program alive
        this.#cancelIdle = clock.after(idleMs, () => void this.#endHost())
      }
    }
  }

  /** Whatever it does: a job that runs fails. The next one has another thread. */
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

  /** Resolves once threads that end have given back their memory. */
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
