import type { Clock } from '../../lib/clock.ts'

/** After the first line of a key. ms */
const pauseMs = 60_000

interface Counted<Line> {
  last: Line
  /** that still have a line each */
  left: number
  count: number
  /** ms since 1970 */
  since: number
}

export interface CountedLinesComponents<Line> {
  readonly clock: Clock
  /** @param since - of the first that is counted, ms since 1970 */
  readonly write: (last: Line, count: number, since: number) => void
}

export interface CountedLinesOptions<Line> {
  /** of a key in a minute that have a line each */
  readonly atOnce: number
  /** keys that are counted one by one in a minute */
  readonly maxKeys: number
  /** what stands for all keys beyond, which are counted as one; absent: each of those has its line */
  readonly others?: (line: Line) => Line
}

/** Lines that come again and again: the first of a key at once, the others of a minute as a line with their number. */
export class CountedLines<Line extends { readonly event: string }> {
  readonly #components: CountedLinesComponents<Line>
  readonly #options: CountedLinesOptions<Line>
  readonly #counted = new Map<string, Counted<Line>>()
  readonly #cancels = new Set<() => void>()

  constructor(components: CountedLinesComponents<Line>, options: CountedLinesOptions<Line>) {
    this.#components = components
    this.#options = options
  }

  /** @returns whether it has a line of its own, and is not counted: that is the caller's to write */
  add(key: string, line: Line): boolean {
    const { atOnce, others } = this.#options
    const own = `${line.event} ${key}`
    if (this.#counted.has(own) || this.#counted.size < this.#options.maxKeys) return this.#add(own, line, atOnce)
    return others ? this.#add(`${line.event} others`, others(line), 0) : true
  }

  /** Reports what is counted by now. */
  stop(): void {
    for (const key of [...this.#counted.keys()]) this.#report(key)
    for (const cancel of this.#cancels) cancel()
    this.#cancels.clear()
    this.#counted.clear()
  }

  #add(key: string, line: Line, atOnce: number): boolean {
    const known = this.#counted.get(key)
    const now = this.#components.clock.now()
    const counted = known ?? { last: line, left: atOnce, count: 0, since: now }
    if (!known) {
      this.#counted.set(key, counted)
      this.#reportLater(key)
    }
    if (counted.left > 0) {
      counted.left -= 1
      return true
    }
    if (counted.count === 0) counted.since = now
    counted.count += 1
    counted.last = line
    return false
  }

  #reportLater(key: string): void {
    const cancel = this.#components.clock.after(pauseMs, () => {
      this.#cancels.delete(cancel)
      this.#report(key)
    })
    this.#cancels.add(cancel)
  }

  /** Forgets keys that were silent for a minute. */
  #report(key: string): void {
    const counted = this.#counted.get(key)
    if (!counted || counted.count === 0) return void this.#counted.delete(key)
    this.#components.write(counted.last, counted.count, counted.since)
    counted.count = 0
    this.#reportLater(key)
  }
}
