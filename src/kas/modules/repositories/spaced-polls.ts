import type { Clock } from '../../../lib/clock.ts'

export interface SpacedPollsComponents {
  readonly clock: Clock
  /** does not throw */
  readonly poll: (projectId: bigint) => void
}

/** From one poll of a repository to the next, in ms. */
const pauseMs = 1000

/**
 * Polls each project's repository at most once a second. The first request polls at once; requests meanwhile share one
 * poll after it.
 */
export class SpacedPolls {
  readonly #components: SpacedPollsComponents
  /** projects that were polled a moment ago: `again`: another poll was requested; `cancel`: cancels the timer */
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
