/**
 * Toggles for the parts of a program: each is off until its part serves, and off again when the part leaves.
 *
 * @see doc/reference/tunnel-protocol.md 8.3
 */
export class Readiness {
  readonly #toggles = new Map<string, string | undefined>()

  /** Adds a toggle that begins with "not ready yet". The returned function sets it; `undefined`: ready. */
  toggle(name: string): (problem: string | undefined) => void {
    this.#toggles.set(name, 'not ready yet')
    return (problem) => void this.#toggles.set(name, problem)
  }

  /** Returns the first toggle that is off, as `name: reason`; undefined: all are on. */
  problem(): string | undefined {
    for (const [name, problem] of this.#toggles) if (problem !== undefined) return `${name}: ${problem}`
    return undefined
  }
}
