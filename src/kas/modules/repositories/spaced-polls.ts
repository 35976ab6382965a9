import type { Clock } from '../../../lib/clock.ts'

export interface SpacedPollsComponents {
  readonly clock: Clock
  /** does not throw */
  readonly poll: (projectId: bigint) => void
}

/** From one poll of a repository to the next. ms */
const pauseMs = 1000

/** One poll a second of each project's repository: the first at once, all that are asked for meanwhile as one after it. */
export class SpacedPolls {
  readonly #components: SpacedPollsComponents
  /** by project, of those polled a moment ago: whether it is asked for again, and what cancels its end */
  readonly #recent = new Map<bigint, { again: boolean; cancel: () => void }>()
  #hasStopped = false

  constructor(components: SpacedPollsComponents) {
    this.#components = components
  }

  ask(projectId: bigint): void {
    const recent = this.#recent.get(projectId)
    if (recent) recent.again = true
    else if (!this.#hasStopped) this.#poll(projectId)
  }

  stop(): void {
    this.#hasStopped = true
    for (const { cancel } of this.#recent.values()) cancel()
    this.#recent.clear()
  }

  #poll(projectId: bigint): void {
    const { clock, poll } = this.#components
    const cancel = clock.after(pauseMs, () => {
      const { again } = this.#recent.get(projectId) ?? {}
      this.#recent.delete(projectId)
      if (again) this.#poll(projectId)
    })
    this.#recent.set(projectId, { again: false, cancel })
    poll(projectId)
  }
}
