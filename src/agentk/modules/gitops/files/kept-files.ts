import { Counter } from '../../../../lib/counter.ts'
import { KasError } from '../../../../lib/errors.ts'
import type { RepositoryFile } from '../manifests/manifest.ts'

/** File with the id of its content; empty: kas has not sent it. */
export interface NamedFile extends RepositoryFile {
  readonly blob: string
}

/** Content of one or more files, which sources of a project share. Arriving files count. */
interface Kept {
  readonly data: Uint8Array
  /** number of files with this content */
  files: number
}

/**
 * Files of all sources, in memory that threads share. Sources of one project share equal contents from the first on.
 * Each source may always use its share of the bytes, and more while there is room.
 */
export class KeptFiles {
  readonly #maxBytes: number
  readonly #sources: () => number
  readonly #contents = new Map<string, Kept>()
  /** by source: keys of its files */
  readonly #rows = new Map<object, readonly string[]>()
  #bytes = 0
  #unnamed = 0

  constructor(maxBytes: number, sources: () => number) {
    this.#maxBytes = maxBytes
    this.#sources = sources
  }

  /** Begins a set of files that is to replace the source's current one. */
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
          goingBytes -= goes.get(key) ?? 0 // this content stays
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

  /** Removes the source's files. */
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
   * Checks the limits before anything is copied.
   *
   * @param newBytes - bytes of the arriving set that no source had before
   * @param allBytes - bytes of all sources, without those that this one gives up
   */
  #checkRoom(newBytes: number, allBytes: number): void {
    const share = this.#maxBytes / Math.max(1, this.#sources())
    if (newBytes <= share || allBytes <= this.#maxBytes) return
    const all = `more than ${this.#maxBytes} bytes of the memory of agentk's pod`
    throw new KasError({ code: 'INVALID_MESSAGE', detail: `the files of all sources take ${all}` })
  }

  /** Returns, by key, the bytes of contents that no other source has. */
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

/** Arrival of one set of files. */
export interface Arrival {
  /** Adds the next file. @returns its content, as kept from now on. @throws KasError: there is no room */
  add(blob: string, pieces: readonly Uint8Array[]): Uint8Array
  /** Completes the set: it replaces the source's earlier files. */
  keep(): void
  /** Ends the arrival: files that are not kept are removed. */
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

/** Budget of bytes for several owners. Each may always use its share, and more while there is room. */
export class SharedBytes {
  readonly maxBytes: number
  readonly #owners: () => number
  readonly #taken = new Counter<object>()

  /** @param owners - returns their number */
  constructor(maxBytes: number, owners: () => number) {
    this.maxBytes = maxBytes
    this.#owners = owners
  }

  /** Replaces the bytes of `owner`. @returns false: there is no room, and its bytes stay as they were */
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
