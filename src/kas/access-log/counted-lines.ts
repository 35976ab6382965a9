import type { Clock } from '../../lib/clock.ts'

/** Time for which lines of a key are counted. ms */
const pauseMs = 60_000

interface Counted<Line> {
  last: Line
  /** number of lines that are still written at once */
  left: number
  count: number
  /** ms since 1970 */
  since: number
}

export interface CountedLinesComponents<Line> {
  readonly clock: Clock
  /** @param since - time of the first counted line, ms since 1970 */
  readonly write: (last: Line, count: number, since: number) => void
}

export interface CountedLinesOptions<Line> {
  /** lines of a key that are written at once in a minute */
  readonly atOnce: number
  /** bound of keys that are counted separately in a minute */
  readonly maxKeys: number
  /** makes the line for all further keys, which are counted together; absent: each of their lines is written */
  readonly others?: (line: Line) => Line
}

/** Repeated lines. The first of a key is written at once. The others of a minute are one line with their number. */
export class CountedLines<Line extends { readonly event: string }> {
  readonly #components: CountedLinesComponents<Line>
  readonly #options: CountedLinesOptions<Line>
  readonly #counted = new Map<string, Counted<Line>>()
  readonly #cancels = new Set<() => void>()

  constructor(components: CountedLinesComponents<Line>, options: CountedLinesOptions<Line>) {
    this.#components = components
    this.#options = options
  }

  /** @returns true: the line is not counted, so the caller writes it */
  add(key: string, line: Line): boolean {
    const { atOnce, others } = this.#options
    const own = `${line.event} ${key}`
    if (this.#counted.has(own) || this.#counted.size < this.#options.maxKeys) return this.#add(own, line, atOnce)
    return others ? this.#add(`${line.event} others`, others(line), 0) : true
  }

  /** Reports the counts so far. */
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

  /** Reports the lines of a key, or drops the key if there were none for a minute. */
  #report(key: string): void {
    const counted = this.#counted.get(key)
    if (!counted || counted.count === 0) return void this.#counted.delete(key)
    this.#components.write(counted.last, counted.count, counted.since)
    counted.count = 0
    this.#reportLater(key)
  }
}
