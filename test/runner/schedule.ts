/** Cost of a job, in seconds. */
export interface Cost {
  readonly wall: number
  /** CPU time of the job and of all programs that it started */
  readonly cpu: number
}

/** Cost of a new job: one core, for as long as most files take that start programs. */
export const unmeasured: Cost = { wall: 5, cpu: 5 }

/** cores; load of a job that only waits: it must start, and its timers fire */
const leastLoad = 0.1

/** Returns the number of cores that a job keeps busy on average. */
const loadOf = ({ wall, cpu }: Cost) => Math.max(leastLoad, cpu / wall || 0)

/** cores; free cores that suffice to start a job of greater load: beside others it only takes a little longer */
const enough = 1

/**
 * Returns the job of `waiting` that starts now beside `running`: the longest one for which the free cores suffice.
 *
 * @returns undefined until one of `running` has ended
 */
export function nextToStart<T extends { readonly cost: Cost }>(
  waiting: readonly T[],
  running: readonly T[],
  { cores, jobs }: { readonly cores: number; readonly jobs: number },
): T | undefined {
  if (running.length >= jobs) return undefined
  const free = running.reduce((left, { cost }) => left - loadOf(cost), cores)
  return waiting
    .filter(({ cost }) => running.length === 0 || Math.min(loadOf(cost), enough) <= free)
    .reduce<T | undefined>((longest, one) => (longest && longest.cost.wall >= one.cost.wall ? longest : one), undefined)
}
