import { Counter } from '../../../../lib/counter.ts'
import { KasError } from '../../../../lib/errors.ts'
import type { RepositoryFile } from '../manifests/manifest.ts'

/** A file with what names its content; empty: kas has not sent it. */
export interface NamedFile extends RepositoryFile {
  readonly blob: string
}

/** Content that several files, or sources of a project, have, or will have once what comes is kept. */
interface Kept {
  readonly data: Uint8Array
  /** files that have it */
  files: number
}

/**
 * The files of all sources, in memory that threads share: what sources of one project have alike is kept once, from
 * when the first of them gets it. Each source has its share of the bytes in any case, and more while there is room.
 */
export class KeptFiles {
  readonly #maxBytes: number
  readonly #sources: () => number
  readonly #contents = new Map<string, Kept>()
  /** of each source's files */
  readonly #rows = new Map<object, readonly string[]>()
  #bytes = 0
  #unnamed = 0

  constructor(maxBytes: number, sources: () => number) {
    this.#maxBytes = maxBytes
    this.#sources = sources
  }

  /** What comes of a source, in place of what it has. */
  arrival(source: object, projectId: bigint): Arrival {
    const goes = this.#ownOf(this.#rows.get(source) ?? [])
    let goingBytes = [...goes.values()].reduce((all, bytes) => all + bytes, 0)
    let keys: string[] = []
    let newBytes = 0
    return {
      add: (blob, pieces) => {
        const key = blob === '' ? `unnamed ${this.#unnamed++}` : `${projectId} ${blob}`
        const known = this.#contents.get(key)
        if (known) {
          goingBytes -= goes.get(key) ?? 0 // it stays
          goes.delete(key)
          known.files++
        } else {
          const bytes = pieces.reduce((all, piece) => all + piece.length, 0)
          newBytes += bytes
          this.#checkRoom(newBytes, this.#bytes - goingBytes + bytes)
          this.#contents.set(key, { data: shared(pieces, bytes), files: 1 })
          this.#bytes += bytes
        }
        keys.push(key)
        return (this.#contents.get(key) as Kept).data
      },
      keep: () => {
        this.release(source)
        this.#rows.set(source, keys)
        keys = []
      },
      leave: () => {
        this.#drop(keys)
        keys = []
      },
    }
  }

  /** It has none any more. */
  release(source: object): void {
    this.#drop(this.#rows.get(source) ?? [])
    this.#rows.delete(source)
  }

  #drop(keys: readonly string[]): void {
    for (const key of keys) {
      const kept = this.#contents.get(key) as Kept
      if (--kept.files > 0) continue
      this.#contents.delete(key)
      this.#bytes -= kept.data.length
    }
  }

  /**
   * Before anything is copied.
   *
   * @param newBytes - that nobody had before this source gets them
   * @param allBytes - of all sources, once what this one keeps no longer is gone
   */
  #checkRoom(newBytes: number, allBytes: number): void {
    const share = this.#maxBytes / Math.max(1, this.#sources())
    if (newBytes <= share || allBytes <= this.#maxBytes) return
    const all = `more than ${this.#maxBytes} bytes of the memory of agentk's pod`
    throw new KasError({ code: 'INVALID_MESSAGE', detail: `the files of all sources take ${all}` })
  }

  /** Bytes of the contents that nobody else has, by key. */
  #ownOf(keys: readonly string[]): Map<string, number> {
    const files = new Counter<string>()
    for (const key of keys) files.add(key)
    const own = new Map<string, number>()
    for (const [key, count] of files.counts) {
      const { data, files: all } = this.#contents.get(key) as Kept
      if (count === all) own.set(key, data.length)
    }
    return own
  }
}

/** Of one set of files. */
export interface Arrival {
  /** The content of the next file, as it is kept from now on. @throws KasError that there is no room */
  add(blob: string, pieces: readonly Uint8Array[]): Uint8Array
  /** The set has come to its end: what the source had before goes. */
  keep(): void
  /** Nothing more comes: what is not kept goes. */
  leave(): void
}

function shared(pieces: readonly Uint8Array[], bytes: number): Uint8Array {
  const data = new Uint8Array(new SharedArrayBuffer(bytes))
  let at = 0
  for (const piece of pieces) {
    data.set(piece, at)
    at += piece.length
  }
  return data
}

/** Bytes that are kept for many: each has its share of them in any case, and more while there is room. */
export class SharedBytes {
  readonly maxBytes: number
  readonly #owners: () => number
  readonly #taken = new Counter<object>()

  /** @param owners - how many share them */
  constructor(maxBytes: number, owners: () => number) {
    this.maxBytes = maxBytes
    this.#owners = owners
  }

  /** In place of what `owner` has had. @returns whether it has it now; else it has what it had */
  set(owner: object, bytes: number): boolean {
    const before = this.#taken.of(owner)
    const isShare = bytes <= this.maxBytes / Math.max(1, this.#owners())
    if (bytes > before && !isShare && this.#taken.total - before + bytes > this.maxBytes) return false
    this.#taken.add(owner, bytes - before)
    return true
  }

  release(owner: object): void {
    this.#taken.delete(owner)
  }
}
