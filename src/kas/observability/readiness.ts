/**
 * Toggles that are off until the part they stand for serves, and off again when it leaves.
 *
 * @see doc/reference/tunnel-protocol.md 8.3
 */
export class Readiness {
  readonly #toggles = new Map<string, string | undefined>()

  /** A toggle that starts with "not ready yet"; the returned function sets it, `undefined` for ready. */
  toggle(name: string): (problem: string | undefined) => void {
    this.#toggles.set(name, 'not ready yet')
    return (problem) => void this.#toggles.set(name, problem)
  }

  /** The first toggle that is off as `name: reason`; undefined when all are on. */
  problem(): string | undefined {
    for (const [name, problem] of this.#toggles) if (problem !== undefined) return `${name}: ${problem}`
    return undefined
  }
}
