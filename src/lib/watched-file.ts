import { readFileSync, statSync } from 'node:fs'

/**
 * A file is checked again when it is used and this much time has passed. Tokens rotate minutes before they expire.
 */
const maxAgeMs = 1000
/**
 * A file that was changed less than this ago may be half of what it will be: not everybody replaces files by rename.
 */
const writingMs = 100

/**
 * The text of a file that others replace while we run: tokens, certificates. Reading is synchronous, on use: a stat a
 * second at the most, and the answer is never older than that. A file that is empty counts as one that cannot be read:
 * who writes in place empties it first, and an empty token would make us nobody.
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

  /** @throws the file system's error, or that it is empty, if it never had a text; later the last good one is kept */
  text(): string {
    if (this.#text === undefined) this.#read()
    else if (this.#now() - this.#checkedAt >= maxAgeMs) this.#read({ orWait: true })
    return this.#text as string
  }

  /** Reads now: the text before is of no use any more. @returns whether the text has changed */
  refresh(): boolean {
    return this.#read()
  }

  /** @param options.orWait - one that may still be written is left for the next use */
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

/** @param mtimeMs - by the system's clock; from the future, it is of another one and says nothing */
function isRecent(mtimeMs: number): boolean {
  const ageMs = Date.now() - mtimeMs
  return ageMs > -writingMs && ageMs < writingMs
}

function readText(path: string): string {
  const text = readFileSync(path, 'utf8')
  if (text.trim() === '') throw new Error(`${path} is empty`)
  return text
}
