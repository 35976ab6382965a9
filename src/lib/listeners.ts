interface Entry<Value> {
  readonly listener: (value: Value) => void
  /** number of the last round before it was added */
  readonly since: number
}

/**
 * Listeners of one kind of event. An error of one does not prevent the calls of others. During a round, a removed
 * listener is not called any more, and an added one is called from the next round on.
 */
export class Listeners<Value = void> {
  readonly #entries = new Set<Entry<Value>>()
  readonly #failed: ((error: unknown) => void) | undefined
  #rounds = 0

  /** @param failed - gets errors of listeners; absent: `notify` throws them once all have been called */
  constructor(failed?: (error: unknown) => void) {
    this.#failed = failed
  }

  get size(): number {
    return this.#entries.size
  }

  /**
   * Adds a listener. The same one may be added twice.
   *
   * @returns function that removes it
   */
  add(listener: (value: Value) => void): () => void {
    const entry = { listener, since: this.#rounds }
    this.#entries.add(entry)
    return () => void this.#entries.delete(entry)
  }

  notify(value: Value): void {
    const round = ++this.#rounds
    let errors: unknown[] | undefined
    for (const { listener, since } of this.#entries) {
      if (since >= round) break // added during this round, as all after it
      try {
        listener(value)
      } catch (error) {
        if (this.#failed) this.#failed(error)
        else errors = [...(errors ?? []), error]
      }
    }
    if (errors) throw failureOf(errors)
  }

  clear(): void {
    this.#entries.clear()
  }
}

/** Listeners by key. Keys without listeners are removed. */
export class KeyedListeners<Key, Value = void> {
  readonly #byKey = new Map<Key, Listeners<Value>>()

  /** Snapshot of the keys with listeners. */
  keys(): Key[] {
    return [...this.#byKey.keys()]
  }

  /** @returns function that removes the listener */
  add(key: Key, listener: (value: Value) => void): () => void {
    const listeners = this.#byKey.get(key) ?? new Listeners<Value>()
    this.#byKey.set(key, listeners)
    const remove = listeners.add(listener)
    return () => {
      remove()
      if (listeners.size === 0 && this.#byKey.get(key) === listeners) this.#byKey.delete(key)
    }
  }

  notify(key: Key, value: Value): void {
    this.#byKey.get(key)?.notify(value)
  }

  /** Calls the listeners of all keys. */
  notifyAll(value: Value): void {
    const errors: unknown[] = []
    for (const key of this.keys()) {
      try {
        this.notify(key, value)
      } catch (error) {
        errors.push(error)
      }
    }
    if (errors.length > 0) throw failureOf(errors)
  }
}

function failureOf(errors: readonly unknown[]): unknown {
  return errors.length === 1 ? errors[0] : new AggregateError(errors, 'several listeners failed')
}
