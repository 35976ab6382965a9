/** Listeners of one kind of event. One that throws keeps no other from being called. */
export class Listeners<Value> {
  readonly #listeners = new Set<(value: Value) => void>()
  readonly #failed: (error: unknown) => void

  constructor(failed: (error: unknown) => void) {
    this.#failed = failed
  }

  /** @returns ends it */
  add(listener: (value: Value) => void): () => void {
    const own = (value: Value) => listener(value)
    this.#listeners.add(own)
    return () => this.#listeners.delete(own)
  }

  notify(value: Value): void {
    for (const listener of [...this.#listeners]) {
      try {
        listener(value)
      } catch (error) {
        this.#failed(error)
      }
    }
  }
}
