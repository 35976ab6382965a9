import type { Clock } from '../../../lib/clock.ts'

export interface SpacedLooksComponents {
  readonly clock: Clock
  /** does not throw */
  readonly look: (projectId: bigint) => void
}

/** From one look at a repository to the next. ms */
const pauseMs = 1000

/** One look a second at each project's repository: the first at once, all that are asked for meanwhile as one after it. */
export class SpacedLooks {
  readonly #components: SpacedLooksComponents
  /** by project, of those looked at a moment ago: whether it is asked for again, and what cancels its end */
  readonly #recent = new Map<bigint, { again: boolean; cancel: () => void }>()
  #hasStopped = false

  constructor(components: SpacedLooksComponents) {
    this.#components = components
  }

  ask(projectId: bigint): void {
    const recent = this.#recent.get(projectId)
    if (recent) recent.again = true
    else if (!this.#hasStopped) this.#look(projectId)
  }

  stop(): void {
    this.#hasStopped = true
    for (const { cancel } of this.#recent.values()) cancel()
    this.#recent.clear()
  }

  #look(projectId: bigint): void {
    const { clock, look } = this.#components
    const cancel = clock.after(pauseMs, () => {
      const { again } = this.#recent.get(projectId) ?? {}
      this.#recent.delete(projectId)
      if (again) this.#look(projectId)
    })
    this.#recent.set(projectId, { again: false, cancel })
    look(projectId)
  }
}
