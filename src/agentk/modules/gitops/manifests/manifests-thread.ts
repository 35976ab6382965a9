import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { Clock } from '../../../../lib/clock.ts'
import { FairTurns } from '../../../../lib/fair-turns.ts'
import { abortable } from '../../../../lib/signals.ts'
import { maxSources } from '../../../../proto/gitops-json.ts'
import type { Manifest, ManifestProblem } from './manifest.ts'
import type { ManifestsAnswer, ManifestsJob } from './read-manifests.ts'

export type ThreadRequest = { readonly is: 'job'; readonly job: ManifestsJob } | { readonly is: 'next' }

export type ThreadAnswer =
  | { readonly is: 'read'; readonly problems: readonly ManifestProblem[] }
  | { readonly is: 'part'; readonly manifests: readonly Manifest[] }
  | { readonly is: 'end' }

export interface ManifestsThreadOptions {
  /** for one commit. ms */
  readonly timeLimitMs: number
  /** of the heap. MiB */
  readonly memoryLimitMb: number
  /** a thread that has nothing to do ends after this time. ms */
  readonly idleMs: number
}

const maxMemoryMb = 1024

/**
 * Of the thread, in MiB: half of the pod's memory at most, as nothing but the kernel ends a pod that takes more.
 *
 * @param podBytes - that the pod may use; 0: no limit is known
 */
export function threadMemoryMb(podBytes: number): number {
  return podBytes > 0 ? Math.min(maxMemoryMb, Math.max(1, Math.floor(podBytes / 2 / 1024 / 1024))) : maxMemoryMb
}

/** Each source reads one commit at a time: those that leave the configuration may still be there. */
const maxWaiting = 2 * maxSources
const tooMany = () => new Error(`more than ${maxWaiting} commits wait to be read`)

/** 10,000 Deployments take some seconds and 256 MiB; other load may leave the thread little of a processor. */
const defaults = { timeLimitMs: 120_000, idleMs: 30_000 }

interface Running {
  readonly worker: Worker
  readonly done: PromiseWithResolvers<ManifestsAnswer>
  problems: readonly ManifestProblem[]
  readonly manifests: Manifest[]
}

/**
 * Reads manifests, one commit after another, in a thread of its own, which exists while there is work: tunnels go on
 * meanwhile. Projects take turns. A commit that takes too much, or too long, ends that thread and nothing else.
 */
export class ManifestsThread {
  readonly #clock: Clock
  readonly #options: ManifestsThreadOptions
  #worker: Worker | undefined
  #running: Running | undefined
  /** by project */
  readonly #turns = new FairTurns<string>({ maxRunning: 1, maxWaiting, tooMany })
  readonly #ending = new Set<Promise<void>>()
  #cancelIdle = () => {}

  constructor(clock: Clock, options: Partial<ManifestsThreadOptions> = {}) {
    this.#clock = clock
    this.#options = { ...defaults, memoryLimitMb: threadMemoryMb(process.constrainedMemory() ?? 0), ...options }
  }

  /** @throws Error that too many wait, what ended the thread, or the signal's reason */
  async read(project: string, job: ManifestsJob, signal: AbortSignal): Promise<ManifestsAnswer> {
    const endTurn = await this.#turns.take(project, signal)
    try {
      return await this.#readNow(job, signal)
    } finally {
      endTurn()
    }
  }

  /** Once nothing is read any more. */
  async stop(): Promise<void> {
    await this.#end()
    await Promise.all(this.#ending)
  }

  async #readNow(job: ManifestsJob, signal: AbortSignal): Promise<ManifestsAnswer> {
    const { timeLimitMs, memoryLimitMb, idleMs } = this.#options
    this.#cancelIdle()
    const worker = this.#worker ?? this.#begin()
    const running: Running = { worker, done: Promise.withResolvers(), problems: [], manifests: [] }
    this.#running = running
    const cancelLimit = this.#clock.after(timeLimitMs, () => {
      running.done.resolve(refusal(`not read in ${timeLimitMs / 1000} s: the commit has too much`))
      void this.#end() // it is at work still
    })
    worker.ref()
    const files = job.files.map(({ path, data }) => ({ path, data: new Uint8Array(data) })) // each alone in its memory
    const request: ThreadRequest = { is: 'job', job: { ...job, files } }
    worker.postMessage(
      request,
      files.map(({ data }) => data.buffer),
    )
    try {
      return await abortable(running.done.promise, signal)
    } catch (error) {
      void this.#end() // it may be at work still
      if ((error as { code?: unknown }).code !== 'ERR_WORKER_OUT_OF_MEMORY') throw error
      return refusal(`not read with ${memoryLimitMb} MiB of memory: the commit has too many values`)
    } finally {
      cancelLimit()
      worker.unref() // a thread that waits keeps no program alive
      this.#running = undefined
      if (this.#worker) this.#cancelIdle = this.#clock.after(idleMs, () => void this.#end())
    }
  }

  #begin(): Worker {
    // the program lies beside this file: .ts in the tree, .js where it is installed
    const program = new URL(`./manifests-thread-program${extname(import.meta.url)}`, import.meta.url)
    const resourceLimits = { maxOldGenerationSizeMb: this.#options.memoryLimitMb }
    const worker = new Worker(program, { name: 'manifests', resourceLimits })
    const failed = (error: unknown) => {
      if (this.#running?.worker === worker) this.#running.done.reject(error)
      if (this.#worker === worker) void this.#end()
    }
    worker.on('message', (answer: ThreadAnswer) => {
      if (this.#running?.worker === worker) this.#take(answer, this.#running)
    })
    worker.on('error', failed)
    worker.on('messageerror', failed)
    worker.on('exit', (status) => failed(new Error(`the thread that reads manifests ended with ${status}`)))
    this.#worker = worker
    return worker
  }

  #take(answer: ThreadAnswer, running: Running): void {
    const { worker, done, manifests, problems } = running
    if (answer.is === 'end') {
      done.resolve({ manifests, problems })
      return
    }
    if (answer.is === 'part') manifests.push(...answer.manifests)
    else running.problems = answer.problems
    const next: ThreadRequest = { is: 'next' }
    worker.postMessage(next)
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

/** Of a commit that would take as much when it is tried again. */
function refusal(text: string): ManifestsAnswer {
  return { manifests: [], problems: [{ file: '', line: 0, text }] }
}
