/** What running something takes, in seconds. */
export interface Cost {
  readonly wall: number
  /** its own, and that of all that it started */
  readonly cpu: number
}

/** What is new: a core, for as long as most files take that start programs. */
export const unmeasured: Cost = { wall: 5, cpu: 5 }

/** of what only waits: it has to start, and its timers come. Cores */
const leastLoad = 0.1

/** Cores that it keeps busy, in the mean. */
const loadOf = ({ wall, cpu }: Cost) => Math.max(leastLoad, cpu / wall || 0)

/** Free for it, what would use more takes its turn: it is as much work beside others, and takes a little longer. Cores */
const enough = 1

/**
 * Which of `waiting` starts now beside those `running`: the longest that the cores left are enough for.
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
