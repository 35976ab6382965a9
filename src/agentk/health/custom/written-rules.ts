import { Listeners } from '../../../lib/listeners.ts'

/** Rules of health as the agent's views.yaml has them now: kas sends that to the part for views, and others judge, too. */
export class WrittenRules {
  readonly #listeners = new Listeners()
  #health: readonly unknown[] = []

  /** List `health` of views.yaml; empty: there is no such file, or no rule in it. */
  get health(): readonly unknown[] {
    return this.#health
  }

  set(health: readonly unknown[]): void {
    this.#health = health
    this.#listeners.notify()
  }

  /** @returns function that removes the listener */
  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener)
  }
}
