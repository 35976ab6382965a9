import type { Clock } from '../../../../lib/clock.ts'
import type { Logger } from '../../../../lib/log.ts'
import { logPriorityRefused } from '../../../../lib/low-priority.ts'
import { Turns } from '../../../../lib/turns.ts'
import { JobThread, programBeside } from '../../../../lib/worker-host.ts'
import { maxSources } from '../../../../proto/gitops/limits.ts'
import type { Manifest, ManifestProblem } from '../manifests/manifest.ts'
import {
  type ManifestsAnswer,
  type ManifestsJob,
  type ManifestsPart,
  manifestsOf,
} from '../manifests/read-manifests.ts'
import { roundBudget } from '../manifests/round-budget.ts'
import type { Checked, CheckJob, HooksJob, PlaceJob } from '../render/check-commit.ts'
import { unlistedHooks } from '../render/helm.ts'
import type { SourceOptions } from '../source-options.ts'

/** Manifests of a commit's files, or of helm's output. */
export interface ReadJob extends ManifestsJob {
  /** the files are helm's output for this chart */
  readonly chart?: NonNullable<SourceOptions['helm']>
}

export type ThreadJob =
  | ({ readonly kind: 'check' } & CheckJob)
  | ({ readonly kind: 'place' } & PlaceJob)
  | ({ readonly kind: 'hooks' } & HooksJob)
  | ({ readonly kind: 'read' } & ReadJob)

export type ThreadRequest = { readonly kind: 'job'; readonly job: ThreadJob } | { readonly kind: 'next' }

export type ThreadAnswer =
  | { readonly kind: 'priority'; readonly refused: string }
  | { readonly kind: 'part'; readonly part: ManifestsPart }
  | { readonly kind: 'done'; readonly result: unknown; readonly heapBytes: number }

export interface ManifestsThreadOptions {
  /** limit for one job. ms */
  readonly timeLimitMs: number
  /** limit of the heap. MiB */
  readonly memoryLimitMb: number
  /** an idle thread ends after this time. ms */
  readonly idleMs: number
}

export interface ManifestsThreadComponents {
  readonly clock: Clock
  /** turns by project; each job takes one, as rendering programs do */
  readonly turns: Pick<Turns<string>, 'take'>
  readonly log: Logger
}

/** Heap with which a thread ends after its job, so that the next work has the memory. Bytes */
const maxIdleHeapBytes = 32 * 1024 * 1024
const youngGenerationMb = 16

/** Each source reads one commit at a time; sources that have left the configuration may still be there. */
const maxWaiting = 2 * maxSources
const tooMany = () => new Error(`more than ${maxWaiting} commits wait to be read`)

/** 10,000 Deployments take some seconds; other load may leave the thread little CPU. */
const defaults = { timeLimitMs: 120_000, idleMs: 30_000 }

interface JobHandler {
  /** returns the result of a job that takes too much memory */
  readonly refused: (text: string) => unknown
  /** @throws: the job and the thread end */
  readonly onPart?: (part: ManifestsPart) => void
}

/** True if there is room for so many bytes of a round's objects in all. */
export type ObjectRoom = (bytes: number) => boolean

/**
 * Checks and reads commits one after another, in a thread of its own, so that tunnels go on. The thread exists while
 * there is work, and projects take turns. A commit that takes too much memory or time ends only that thread.
 */
export class ManifestsThread {
  readonly #options: ManifestsThreadOptions
  readonly #shared: Pick<Turns<string>, 'take'>
  readonly #log: Logger
  readonly #thread: JobThread<ThreadRequest, ThreadAnswer>
  /** by project */
  readonly #turns = new Turns<string>({ maxRunning: 1, maxWaiting, tooMany })

  constructor(
    { clock, turns, log }: ManifestsThreadComponents,
    options: Partial<ManifestsThreadOptions> & Pick<ManifestsThreadOptions, 'memoryLimitMb'>,
  ) {
    this.#shared = turns
    this.#log = log
    this.#options = { ...defaults, ...options }
    const thread = {
      program: programBeside(import.meta.url, 'manifests-thread-program'),
      name: 'manifests',
      label: 'the thread that reads manifests',
      youngGenerationMb,
    }
    this.#thread = new JobThread({ clock }, { ...thread, ...this.#options })
  }

  /** @throws as `read` */
  async check(project: string, job: Omit<CheckJob, 'budget'>, signal: AbortSignal): Promise<Checked> {
    const budget = roundBudget(this.#options.memoryLimitMb)
    const refused = (text: string): Checked => ({
      problems: [problem(text)],
      notes: [],
      replacements: [],
      programs: [],
      budget,
    })
    return (await this.#run(project, { kind: 'check', ...job, budget }, { refused }, signal)) as Checked
  }

  /** @throws as `read` */
  async place(project: string, job: PlaceJob, signal: AbortSignal): Promise<{ file: string; line: number }> {
    const refused = () => ({ file: '', line: 0 })
    return (await this.#run(project, { kind: 'place', ...job }, { refused }, signal)) as { file: string; line: number }
  }

  /** @throws as `read` */
  async hooks(project: string, job: HooksJob, signal: AbortSignal): Promise<readonly string[]> {
    const refused = (text: string) => [unlistedHooks(text)]
    return (await this.#run(project, { kind: 'hooks', ...job }, { refused }, signal)) as readonly string[]
  }

  /** @throws Error: too many jobs wait, no room, no time, or the thread's own error; or the signal's reason */
  async read(
    project: string,
    job: ReadJob,
    signal: AbortSignal,
    room: ObjectRoom = () => true,
  ): Promise<ManifestsAnswer> {
    const manifests: Manifest[] = []
    let bytes = 0
    const onPart = (part: ManifestsPart) => {
      bytes += part.json.length
      if (!room(bytes)) throw new Error('the objects of other sources leave no room for those of this one now')
      for (const manifest of manifestsOf(part)) manifests.push(manifest)
    }
    const refused = (text: string) => ({ problems: [problem(text)] })
    const budget = job.budget ?? roundBudget(this.#options.memoryLimitMb)
    const result = await this.#run(project, { kind: 'read', ...job, budget }, { refused, onPart }, signal)
    const { problems } = result as { problems: readonly ManifestProblem[] }
    return { manifests: problems.length > 0 ? [] : manifests, problems }
  }

  async #run(project: string, job: ThreadJob, handler: JobHandler, signal: AbortSignal): Promise<unknown> {
    const endTurn = await this.#turns.take(project, signal)
    try {
      const endShared = await this.#shared.take(project, signal)
      try {
        return await this.#runNow(job, handler, signal)
      } finally {
        await this.#thread.ended() // ended threads have given back their memory
        endShared()
      }
    } finally {
      endTurn()
    }
  }

  /** Ends the thread. Only once nothing is read any more. */
  async stop(): Promise<void> {
    await this.#thread.end()
    await this.#thread.ended()
  }

  #runNow(job: ThreadJob, { refused, onPart }: JobHandler, signal: AbortSignal): Promise<unknown> {
    const { timeLimitMs, memoryLimitMb } = this.#options
    return this.#thread.run<unknown>(
      {
        request: { kind: 'job', job }, // files are shared, not copied
        onAnswer: (answer, { post, resolve, endThread }) => {
          if (answer.kind === 'priority') return logPriorityRefused(this.#log, answer.refused)
          if (answer.kind === 'part') {
            onPart?.(answer.part)
            post({ kind: 'next' })
            return
          }
          if (answer.heapBytes > maxIdleHeapBytes) endThread()
          resolve(answer.result)
        },
        tooLate: () => {
          // the cause is unknown, so the commit is not refused
          const limit = `not read in ${timeLimitMs / 1000} s`
          throw new Error(`${limit}: the commit has too much, or agentk too little CPU; it is tried again`)
        },
        tooLarge: () => refused(`not read with ${memoryLimitMb} MiB of memory: the commit has too many values`),
      },
      signal,
    )
  }
}

/** Returns the problem of a commit that would fail in the same way if tried again. */
function problem(text: string): ManifestProblem {
  return { file: '', line: 0, text }
}
