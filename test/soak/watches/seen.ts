/** Values before a watch can go on: the one of its list, the one at its begin, and a change. */
const enough = 3

/** The values of the counter that one client of a watch has seen. */
export class Seen {
  readonly name: string
  readonly values: number[] = []
  /** description; absent: it goes on */
  end: string | undefined
  /** number of watch requests since `begins` */
  watches = 0
  /** number of lists since `begins` */
  lists = 0
  /** the value of its first list may be older than the begin of its watch */
  readonly #asksFirst: boolean
  readonly #listeners = new Set<() => void>()

  constructor(name: string, { asksFirst = false } = {}) {
    this.name = name
    this.#asksFirst = asksFirst
  }

  get last(): number {
    return this.values.at(-1) ?? -1
  }

  /** Resets the counts: earlier requests were needed. */
  begins(): void {
    this.watches = 0
    this.lists = 0
  }

  saw(value: number): void {
    this.values.push(value)
    for (const listener of this.#listeners) listener()
  }

  ended(how: string): void {
    this.end ??= how
    for (const listener of this.#listeners) listener()
  }

  /** Resolves once the client has seen the value, by a watch that can go on, or has ended. */
  async until(value: number, signal: AbortSignal): Promise<void> {
    while ((this.last < value || this.values.length < enough) && this.end === undefined) {
      signal.throwIfAborted()
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#listeners.add(resolve)
      signal.addEventListener('abort', () => resolve(), { once: true })
      await promise
      this.#listeners.delete(resolve)
    }
  }

  /**
   * Faults of the client, in words.
   *
   * @param value - value that it must have seen
   */
  faults(value: number): string[] {
    const ended = this.end === undefined ? [] : [`it ended: ${this.end}`]
    const behind = this.last >= value ? [] : [`it saw ${this.last} last, of ${value}`]
    return [...this.#gaps(), ...ended, ...behind].map((fault) => `${this.name}: ${fault}`)
  }

  /** Missing values; none for a client that lists again, since it skips the values in between. */
  #gaps(): string[] {
    if (this.lists > 0) return []
    const watched = this.values.slice(this.#asksFirst ? 1 : 0)
    const gaps = watched.slice(1).flatMap((value, i) => {
      const before = watched[i] as number
      return value === before + 1 ? [] : [`${before} is followed by ${value}`]
    })
    return gaps.slice(0, 3)
  }
}
