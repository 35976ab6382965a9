import { readFileSync, statSync } from 'node:fs'

/** Age at which a file is checked again when it is used. Tokens rotate minutes before they expire. ms */
const maxAgeMs = 1000
/** Time since its last change in which a file may be incomplete: not all programs replace files by rename. ms */
const writingMs = 100

/**
 * Text of a file that other programs replace while this one runs: tokens, certificates. It is read synchronously, on
 * use, with one stat a second at most, so it is at most a second old. An empty file counts as unreadable: a program
 * that writes in place empties it first, and an empty token would make kas anonymous.
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

  /** grows with each new text */
  get version(): number {
    return this.#version
  }

  /**
   * Returns the text. Once there was one, the last good text stays.
   *
   * @throws the file system's error, or an error that the file is empty, if there never was a text
   */
  text(): string {
    if (this.#text === undefined) this.#read()
    else if (this.#now() - this.#checkedAt >= maxAgeMs) this.#read({ orWait: true })
    return this.#text as string
  }

  /**
   * Reads now, because the current text is of no use.
   *
   * @returns true: the text has changed
   */
  refresh(): boolean {
    return this.#read()
  }

  /** @param options.orWait - true: a file that may be incomplete is left for the next use */
  #read(options: { orWait?: boolean } = {}): boolean {
    const before = this.#text
    try {
      const { mtimeMs, ino, size } = statSync(this.path)
      const stamp = `${mtimeMs} ${ino} ${size}`
      if (stamp !== this.#stamp) {
        if (options.orWait && isRecent(mtimeMs)) return false
        this.#text = readText(this.path)
        this.#stamp = stamp
      }
    } catch (error) {
      if (before === undefined) throw error
    }
    this.#checkedAt = this.#now()
    if (this.#text === before) return false
    this.#version++
    return true
  }
}

/** @param mtimeMs - by the system's clock; a time in the future comes from another clock and does not count */
function isRecent(mtimeMs: number): boolean {
  const ageMs = Date.now() - mtimeMs
  return ageMs > -writingMs && ageMs < writingMs
}

function readText(path: string): string {
  const text = readFileSync(path, 'utf8')
  if (text.trim() === '') throw new Error(`${path} is empty`)
  return text
}
