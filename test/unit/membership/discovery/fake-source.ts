import type { Discovered, DiscoverySource } from '../../../../src/membership/discovery/source.ts'

/** A source that says what its test wants. */
export class FakeSource implements DiscoverySource {
  readonly name: string
  readonly calls: string[] = []
  /** thrown by `start` and `stop` */
  failure: Error | undefined
  #current: Discovered = { addresses: [], stale: false, answered: false }
  readonly #listeners = new Set<() => void>()

  constructor(name: string) {
    this.name = name
  }

  current(): Discovered {
    return this.#current
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  become(next: Discovered): void {
    this.#current = next
    for (const listener of this.#listeners) listener()
  }

  start(): Promise<void> {
    return this.#called('start')
  }

  stop(): Promise<void> {
    return this.#called('stop')
  }

  async #called(call: string): Promise<void> {
    this.calls.push(call)
    if (this.failure) throw this.failure
  }
}
