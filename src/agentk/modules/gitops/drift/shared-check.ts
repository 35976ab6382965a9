import { abortable } from '../../../../lib/signals.ts'

/** Checks all objects of a source, once for all who ask at the same time. */
export class SharedCheck {
  readonly #checkAll: () => Promise<number>
  #running: Promise<number> | undefined
  #next: Promise<number> | undefined

  /** @param checkAll - returns the number of objects that were compared */
  constructor(checkAll: () => Promise<number>) {
    this.#checkAll = checkAll
  }

  /**
   * Checks all objects from now on. Whoever asks while a check runs shares the next one: the running one may have
   * passed an object that has changed since.
   *
   * @returns number of those that were compared
   * @throws the signal's reason, or the error of the check
   */
  async run(signal: AbortSignal): Promise<number> {
    if (this.#running) this.#next ??= this.#running.then(this.#begin, this.#begin)
    return await abortable(this.#next ?? this.#begin(), signal)
  }

  readonly #begin = (): Promise<number> => {
    this.#next = undefined
    const check = this.#checkAll().finally(() => {
      if (this.#running === check) this.#running = undefined
    })
    this.#running = check
    return check
  }
}
