import { KasError } from '../../../lib/errors.ts'
import type { RepositoryFile } from './manifests/manifest.ts'

/** A file with what names its content; empty: kas has not said it. */
export interface HeldFile extends RepositoryFile {
  readonly blob: string
}

/** Content that several files, or sources of a project, may have. */
interface Kept {
  readonly data: Uint8Array
  /** files that have it */
  files: number
}

interface Row {
  readonly keys: readonly string[]
  /** of what comes, and is not kept yet */
  arriving: number
}

/**
 * The files of all sources, in memory that threads share: what sources of one project have alike is kept once. Each
 * source has its share of the bytes in any case, and more while there is room.
 */
export class KeptFiles {
  readonly #maxBytes: number
  readonly #sources: () => number
  readonly #contents = new Map<string, Kept>()
  readonly #rows = new Map<object, Row>()
  #bytes = 0
  #unnamed = 0

  constructor(maxBytes: number, sources: () => number) {
    this.#maxBytes = maxBytes
    this.#sources = sources
  }

  /** What comes of a source, in place of what it has. */
  arrival(source: object, projectId: bigint): Arrival {
    const row = this.#rows.get(source) ?? { keys: [], arriving: 0 }
    this.#rows.set(source, row)
    const [keyOf, added] = [(blob: string) => `${projectId} ${blob}`, new Map<string, Uint8Array>()]
    const own = this.#bytesOf(row.keys)
    return {
      add: (blob, pieces) => {
        const known = blob === '' ? undefined : (this.#contents.get(keyOf(blob))?.data ?? added.get(keyOf(blob)))
        if (known) return known
        const data = shared(pieces)
        this.#arrive(row, own, data.length)
        if (blob !== '') added.set(keyOf(blob), data)
        return data
      },
      keep: (files) => {
        this.release(source)
        const keys = files.map(({ blob }) => (blob === '' ? `unnamed ${this.#unnamed++}` : keyOf(blob)))
        this.#rows.set(source, { keys, arriving: 0 })
        return files.map((file, index) => ({ ...file, data: this.#keep(keys[index] as string, file.data) }))
      },
      leave: () => {
        this.#bytes -= row.arriving
        row.arriving = 0
      },
    }
  }

  /** It has none any more. */
  release(source: object): void {
    const row = this.#rows.get(source)
    this.#rows.delete(source)
    if (!row) return
    this.#bytes -= row.arriving
    row.arriving = 0
    for (const key of row.keys) {
      const kept = this.#contents.get(key) as Kept
      if (--kept.files > 0) continue
      this.#contents.delete(key)
      this.#bytes -= kept.data.length
    }
  }

  /** @returns the content that is kept: another source may have brought it meanwhile */
  #keep(key: string, data: Uint8Array): Uint8Array {
    const kept = this.#contents.get(key)
    if (kept) {
      kept.files++
      return kept.data
    }
    this.#contents.set(key, { data, files: 1 })
    this.#bytes += data.length
    return data
  }

  /** @param own - bytes that go if the source keeps nothing of what it has; what others bring now is counted */
  #arrive(row: Row, own: number, bytes: number): void {
    const arriving = row.arriving + bytes
    const others = this.#bytes - row.arriving - own
    const share = this.#maxBytes / Math.max(1, this.#sources())
    if (arriving > share && others + arriving > this.#maxBytes) {
      const all = `more than ${this.#maxBytes} bytes of the memory of agentk's pod`
      throw new KasError({ code: 'INVALID_MESSAGE', detail: `the files of all sources take ${all}` })
    }
    row.arriving = arriving
    this.#bytes += bytes
  }

  /** Of content that nobody else has. */
  #bytesOf(keys: readonly string[]): number {
    const own = new Map<string, number>()
    for (const key of keys) own.set(key, (own.get(key) ?? 0) + 1)
    let bytes = 0
    for (const [key, files] of own) {
      const { data, files: all } = this.#contents.get(key) as Kept
      if (files === all) bytes += data.length
    }
    return bytes
  }
}

/** Of one set of files. */
export interface Arrival {
  /** The content of a file, as it is to be kept. @throws KasError that there is no room */
  add(blob: string, pieces: readonly Uint8Array[]): Uint8Array
  /** It has come to its end: what the source had before goes. @returns the files, each content as it is kept */
  keep(files: readonly HeldFile[]): HeldFile[]
  /** It has not, or is kept: nothing of it is on its way. */
  leave(): void
}

function shared(pieces: readonly Uint8Array[]): Uint8Array {
  const data = new Uint8Array(new SharedArrayBuffer(pieces.reduce((bytes, piece) => bytes + piece.length, 0)))
  let at = 0
  for (const piece of pieces) {
    data.set(piece, at)
    at += piece.length
  }
  return data
}
