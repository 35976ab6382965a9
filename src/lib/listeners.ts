interface Entry<Value> {
  readonly listener: (value: Value) => void
  /** the round that ran, or had run last, when it was added */
  readonly since: number
}

/**
 * Listeners of one kind of event. One that throws keeps no other from being called. While they are called, one that is
 * removed is called no more, and one that is added is called from the next time on.
 */
export class Listeners<Value = void> {
  readonly #entries = new Set<Entry<Value>>()
  readonly #failed: ((error: unknown) => void) | undefined
  #rounds = 0

  /** @param failed - gets what a listener throws; without it `notify` throws that, once all have been called */
  constructor(failed?: (error: unknown) => void) {
    this.#failed = failed
  }

  get size(): number {
    return this.#entries.size
  }

  /** The same listener may be added twice. @returns removes it */
  add(listener: (value: Value) => void): () => void {
    const entry = { listener, since: this.#rounds }
    this.#entries.add(entry)
    return () => void this.#entries.delete(entry)
  }

  notify(value: Value): void {
    const round = ++this.#rounds
    let errors: unknown[] | undefined
    for (const { listener, since } of this.#entries) {
      if (since >= round) break // it was added meanwhile, and so were all behind it
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

/** Listeners by key: nothing is kept of a key without any. */
export class KeyedListeners<Key, Value = void> {
  readonly #byKey = new Map<Key, Listeners<Value>>()

  /** Those that have listeners, as they are now. */
  keys(): Key[] {
    return [...this.#byKey.keys()]
  }

  /** @returns removes it */
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

  /** Calls those of all keys. */
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
