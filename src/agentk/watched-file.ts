import { readFileSync, statSync } from 'node:fs'

/** A file is looked at again when it is used and this much time has passed. Tokens rotate minutes before they expire. */
const maxAgeMs = 1000

/**
 * The text of a file that others replace while we run: tokens, certificates. Reading is synchronous, on use: a stat a
 * second at the most, and the answer is never older than that.
 */
export class WatchedFile {
  readonly path: string
  readonly #now: () => number
  #text: string | undefined
  #version = 0
  #stamp = ''
  #checkedAt = Number.NEGATIVE_INFINITY

  constructor(path: string, now: () => number = () => performance.now()) {
    this.path = path
    this.#now = now
  }

  /** grows with each text */
  get version(): number {
    return this.#version
  }

  /** @throws the file system's error if it was never readable; later the last good text is kept */
  text(): string {
    if (this.#now() - this.#checkedAt >= maxAgeMs) this.refresh()
    return this.#text as string
  }

  /** Looks now. @returns whether the text has changed */
  refresh(): boolean {
    this.#checkedAt = this.#now()
    const before = this.#text
    try {
      const { mtimeMs, ino, size } = statSync(this.path)
      const stamp = `${mtimeMs} ${ino} ${size}`
      if (stamp !== this.#stamp) {
        this.#text = readFileSync(this.path, 'utf8')
        this.#stamp = stamp
      }
    } catch (error) {
      if (before === undefined) throw error
    }
    if (this.#text === before) return false
    this.#version++
    return true
  }
}
