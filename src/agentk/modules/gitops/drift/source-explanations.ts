import type { ExplainTurns } from './explain-turns.ts'

/** Explanation that waits or runs. */
interface RunningExplanation {
  /** it has to be repeated */
  isDue: boolean
  /** `scale` explains all that moved since the last one */
  isOnlyScaled: boolean
  /** resolves with true if the object was compared */
  readonly ended: Promise<boolean>
  readonly end: (isCompared: boolean) => void
}

export interface SourceExplanationsComponents {
  readonly turns: Pick<ExplainTurns, 'add' | 'leave'>
  /**
   * Compares an object, by `keyText`. Never rejects.
   *
   * @param isOnlyScaled - `scale` explains all that moved. @returns true: it was compared
   */
  readonly explain: (text: string, isOnlyScaled: boolean) => Promise<boolean>
  /** called in place of `explain` if too many wait */
  readonly onLost: () => void
}

/** Explanations of one source's objects that wait or run: one for each object, however often that changes. */
export class SourceExplanations {
  readonly #components: SourceExplanationsComponents
  readonly #signal: AbortSignal
  /** by `keyText` */
  readonly #running = new Map<string, RunningExplanation>()

  constructor(components: SourceExplanationsComponents, signal: AbortSignal) {
    this.#components = components
    this.#signal = signal
    signal.addEventListener('abort', () => components.turns.leave(this), { once: true })
  }

  /** Requests the explanation of an object, once for all changes that come before it begins. */
  request(text: string, { isOnlyScaled = false } = {}): void {
    if (this.#signal.aborted) return
    const running = this.#running.get(text)
    if (running) {
      running.isOnlyScaled = isOnlyScaled && (running.isOnlyScaled || !running.isDue)
      running.isDue = true
      return
    }
    const { promise: ended, resolve: end } = Promise.withResolvers<boolean>()
    const explanation: RunningExplanation = { isDue: false, isOnlyScaled, ended, end }
    this.#running.set(text, explanation)
    this.#components.turns.add({
      source: this,
      run: () => this.#explain(text, explanation),
      onLost: () => {
        this.#running.delete(text)
        explanation.end(false)
        this.#components.onLost()
      },
    })
  }

  /** Resolves when the explanation of an object has ended: with true if it was compared. undefined: none waits or runs */
  ended(text: string): Promise<boolean> | undefined {
    return this.#running.get(text)?.ended
  }

  async #explain(text: string, running: RunningExplanation): Promise<void> {
    running.isDue = false
    const isCompared = await this.#components.explain(text, running.isOnlyScaled)
    this.#running.delete(text)
    running.end(isCompared)
    if (running.isDue) this.request(text, running)
  }
}
