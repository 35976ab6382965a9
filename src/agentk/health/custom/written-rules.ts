/** Rules of health as the agent's views.yaml has them now: kas sends that to the part for views, and others judge, too. */
export class WrittenRules {
  readonly #listeners = new Set<() => void>()
  #health: readonly unknown[] = []

  /** List `health` of views.yaml; empty: there is no such file, or no rule in it. */
  get health(): readonly unknown[] {
    return this.#health
  }

  set(health: readonly unknown[]): void {
    this.#health = health
    for (const listener of this.#listeners) listener()
  }

  /** @param listener - must not throw. @returns function that removes it */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }
}
