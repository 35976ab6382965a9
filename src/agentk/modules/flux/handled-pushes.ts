/** As many as kas remembers for agents that come back (src/kas/modules/flux/recent-pushes.ts). */
export const maxHandledPushes = 10_000

/** Ids of pushes that need no second call: kas sends one twice rather than not at all. The oldest are forgotten. */
export class HandledPushes {
  readonly #max: number
  readonly #ids = new Set<bigint>()

  constructor(max: number = maxHandledPushes) {
    this.#max = max
  }

  /** @param id - 0: of a kas that has no ids. @returns whether it is new */
  add(id: bigint): boolean {
    if (id === 0n) return true
    if (this.#ids.has(id)) return false
    this.#ids.add(id)
    if (this.#ids.size > this.#max) for (const oldest of this.#ids.keys()) return this.#ids.delete(oldest)
    return true
  }

  /** It was not handled after all. */
  remove(id: bigint): void {
    this.#ids.delete(id)
  }
}
