import type { Clock } from '../../../../lib/clock.ts'
import type { ExplainTurns } from './explain-turns.ts'
import type { Explanation } from './explanation.ts'

/** Pause before an explanation without an answer is tried again. ms */
export const retryMs = 30_000

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
  readonly clock: Pick<Clock, 'now' | 'after'>
}

/** Explanations of one source's objects that wait or run: one for each object, however often that changes. */
export class SourceExplanations {
  readonly #components: SourceExplanationsComponents
  readonly #signal: AbortSignal
  /** by `keyText` */
  readonly #running = new Map<string, RunningExplanation>()
  /** by `keyText`: cancels the explanation that begins after a pause; as many as the source has objects */
  readonly #later = new Map<string, () => void>()

  constructor(components: SourceExplanationsComponents, signal: AbortSignal) {
    this.#components = components
    this.#signal = signal
    signal.addEventListener('abort', () => this.#stop(), { once: true })
  }

  /** Requests the explanation of an object, once for all changes that come before it begins. */
  request(text: string, how: { readonly isOnlyScaled?: boolean } = {}): void {
    if (this.#signal.aborted) return
    const isOnlyScaled = how.isOnlyScaled === true && !this.#later.has(text)
    this.#cancel(text)
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

  /** Requests the explanation of an object after a pause. Any other request takes its place. */
  requestLater(text: string, ms: number): void {
    if (this.#signal.aborted) return
    this.#cancel(text)
    const cancel = this.#components.clock.after(Math.max(0, Math.ceil(ms)), () => this.request(text))
    this.#later.set(text, cancel)
  }

  /** Requests one more when the second of the newest change is over: a later one may leave the same metadata. */
  requestAgain(text: string, explanation: Explanation): void {
    const again = 'again' in explanation ? explanation.again : undefined
    if (again !== undefined) this.requestLater(text, again - this.#components.clock.now())
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

  #cancel(text: string): void {
    this.#later.get(text)?.()
    this.#later.delete(text)
  }

  #stop(): void {
    for (const text of this.#later.keys()) this.#cancel(text)
    this.#components.turns.leave(this)
  }
}
