/** What it has asked for first, what was there as its watch began, and a change: before that one no watch can go on. */
const enough = 3

/** What one client of a watch has seen of the counter. */
export class Seen {
  readonly name: string
  readonly values: number[] = []
  /** in words; absent: it goes on */
  end: string | undefined
  /** watches that it has asked for since it `begins` */
  watches = 0
  /** how often it has asked for all that is there since then */
  lists = 0
  /** what it asked for first may be older than where its watch begins */
  readonly #asksFirst: boolean
  readonly #listeners = new Set<() => void>()

  constructor(name: string, { asksFirst = false } = {}) {
    this.name = name
    this.#asksFirst = asksFirst
  }

  get last(): number {
    return this.values.at(-1) ?? -1
  }

  /** It watches: what it has asked for so far was needed. */
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

  /** Resolves once it has seen the value, by a watch that can go on, or has ended. */
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
   * What is wrong with it, in words.
   *
   * @param value - that it must have seen
   */
  faults(value: number): string[] {
    const ended = this.end === undefined ? [] : [`it ended: ${this.end}`]
    const behind = this.last >= value ? [] : [`it saw ${this.last} last, of ${value}`]
    return [...this.#gaps(), ...ended, ...behind].map((fault) => `${this.name}: ${fault}`)
  }

  /** Who lists anew sees what is there then, and nothing of what was between. */
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
