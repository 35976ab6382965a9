/** Says to one listener that what was asked for is not wanted any more: an AbortController is a part of what a call costs. */
export class Cancellation {
  #isCancelled = false
  #listener: (() => void) | undefined

  get isCancelled(): boolean {
    return this.#isCancelled
  }

  /** Calls `listener` once it is cancelled, at once if it is, in the place of the one before; undefined: nobody. */
  onCancel(listener: (() => void) | undefined): void {
    if (this.#isCancelled) listener?.()
    else this.#listener = listener
  }

  cancel(): void {
    if (this.#isCancelled) return
    this.#isCancelled = true
    this.#listener?.()
    this.#listener = undefined
  }
}
