import type { Clock } from '../../../../lib/clock.ts'

/** Time for which work goes on before others have their turn. ms */
export const sliceMs = 8
/** Time from one update of a view to the next. ms */
export const updatePauseMs = 50
/** Short steps for which the clock is read once. */
const shortSteps = 16
/** Share of the time that passes which may be spent at once, before others have a turn. */
const atOnceShare = 0.5

interface Job {
  /** @returns true if there is more */
  readonly step: () => boolean
  readonly done: () => void
  readonly stepsPerReading: number
  isCancelled: boolean
}

/**
 * Runs long work of the thread in slices. Sources take turns, and so do the jobs of one source: however much one source
 * asks for, others keep their share.
 */
export class TimeSlices {
  readonly #clock: Clock
  /** by source, in the order of their turns; none is empty */
  readonly #waiting = new Map<string, Job[]>()
  /** end of the slice that runs; undefined: none runs */
  #sliceEnd: number | undefined
  #cancel: (() => void) | undefined
  /** time that may still be spent at once, in ms, and when that was computed */
  #atOnce = { ms: sliceMs, at: Number.NEGATIVE_INFINITY }

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Number of jobs that are not done. */
  get size(): number {
    return [...this.#waiting.values()].reduce((sum, { length }) => sum + length, 0)
  }

  /**
   * Repeats `step` until nothing is left, then calls `done`. Short work is done at once if nobody waits; work that is
   * asked for in a slice is part of that slice.
   *
   * @param source - each source has the same share
   * @param step - short by itself; returns true if there is more
   * @param areLong - one step may take as long as a slice
   * @returns a function that ends the work early
   */
  run(source: string, step: () => boolean, done: () => void, { areLong = false } = {}): () => void {
    const job: Job = { step, done, stepsPerReading: areLong ? 1 : shortSteps, isCancelled: false }
    if (this.#mayRunAtOnce() && this.#slice([job])) return () => undefined
    const waiting = this.#waiting.get(source)
    if (waiting) waiting.push(job)
    else this.#waiting.set(source, [job])
    this.#schedule()
    return () => {
      job.isCancelled = true
      this.#delete(source, job)
    }
  }

  #mayRunAtOnce(): boolean {
    const now = this.#clock.now()
    if (this.#sliceEnd !== undefined) return now < this.#sliceEnd
    if (this.#waiting.size > 0) return false
    const { ms, at } = this.#atOnce
    this.#atOnce = { ms: Math.min(sliceMs, ms + Math.max(0, now - at) * atOnceShare), at: now }
    return this.#atOnce.ms > 0
  }

  #schedule(): void {
    if (this.#waiting.size > 0) this.#cancel ??= this.#clock.after(0, () => this.#round())
  }

  /** Gives each source a whole slice, one after the other, until the time of a slice is over. */
  #round(): void {
    this.#cancel = undefined
    const end = this.#clock.now() + sliceMs
    do {
      const [first] = this.#waiting
      if (!first) break
      const [source, jobs] = first
      this.#waiting.delete(source)
      this.#slice(jobs)
      const added = this.#waiting.get(source) ?? []
      // jobs that the slice has added for its own source
      this.#waiting.delete(source)
      if (jobs.length + added.length > 0) this.#waiting.set(source, [...jobs, ...added])
    } while (this.#clock.now() < end)
    this.#schedule()
  }

  /**
   * Runs jobs one after the other; a job that is cut goes to the end.
   *
   * @returns true if all are done
   */
  #slice(jobs: Job[]): boolean {
    const start = this.#clock.now()
    const outer = this.#sliceEnd
    const end = outer ?? start + sliceMs
    this.#sliceEnd = end
    try {
      for (let steps = 1; jobs.length > 0; steps++) {
        const job = jobs[0] as Job
        const isOver = job.isCancelled || !job.step()
        if (isOver) jobs.shift()
        if (isOver && !job.isCancelled) job.done()
        if ((isOver || steps % job.stepsPerReading === 0) && this.#clock.now() >= end) break
      }
      jobs.push(...jobs.splice(0, 1))
    } finally {
      this.#sliceEnd = outer
      const now = this.#clock.now()
      if (outer === undefined) this.#atOnce = { ms: this.#atOnce.ms - Math.max(0, now - start), at: now }
    }
    return jobs.length === 0
  }

  #delete(source: string, job: Job): void {
    const jobs = this.#waiting.get(source)
    const index = jobs?.indexOf(job) ?? -1
    if (!jobs || index < 0) return
    jobs.splice(index, 1)
    if (jobs.length === 0) this.#waiting.delete(source)
  }
}
