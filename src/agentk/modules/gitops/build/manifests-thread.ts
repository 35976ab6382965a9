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

/** Manifests of a commit's files, or of what helm has printed. */
export interface ReadJob extends ManifestsJob {
  /** the files are what it has printed of this chart */
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
  /** for one job. ms */
  readonly timeLimitMs: number
  /** of the heap. MiB */
  readonly memoryLimitMb: number
  /** a thread that has nothing to do ends after this time. ms */
  readonly idleMs: number
}

export interface ManifestsThreadComponents {
  readonly clock: Clock
  /** by project: a job has one, as programs that render have */
  readonly turns: Pick<Turns<string>, 'take'>
  readonly log: Logger
}

/** A thread whose heap has grown beyond ends with its job: what is at work next has the memory. */
const maxIdleHeapBytes = 32 * 1024 * 1024
const youngGenerationMb = 16

/** Each source reads one commit at a time: those that leave the configuration may still be there. */
const maxWaiting = 2 * maxSources
const tooMany = () => new Error(`more than ${maxWaiting} commits wait to be read`)

/** 10,000 Deployments take some seconds; other load may leave the thread little of a processor. */
const defaults = { timeLimitMs: 120_000, idleMs: 30_000 }

interface JobHandler {
  /** the result where the job takes too much memory */
  readonly refused: (text: string) => unknown
  /** @throws: the job ends, and the thread */
  readonly onPart?: (part: ManifestsPart) => void
}

/** Whether there is room for so many bytes of objects of a round, with those before. */
export type ObjectRoom = (bytes: number) => boolean

/**
 * Checks and reads commits, one after another, in a thread of its own, which exists while there is work: tunnels go on
 * meanwhile. Projects take turns. A commit that takes too much, or too long, ends that thread and nothing else.
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

  /** @throws Error that too many wait, that there is no room or no time, what ended the thread, or the signal's reason */
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
        await this.#thread.ended() // threads that end have given back their memory
        endShared()
      }
    } finally {
      endTurn()
    }
  }

  /** Once nothing is read any more. */
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
          // either: the commit is not refused for it
          const limit = `not read in ${timeLimitMs / 1000} s`
          throw new Error(`${limit}: the commit has too much, or agentk too little CPU; it is tried again`)
        },
        tooLarge: () => refused(`not read with ${memoryLimitMb} MiB of memory: the commit has too many values`),
      },
      signal,
    )
  }
}

/** Of a commit that would take as much when it is tried again. */
function problem(text: string): ManifestProblem {
  return { file: '', line: 0, text }
}
