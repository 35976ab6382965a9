import { type BlobLimits, checkSizes, type TreeFile } from '../../repositories/tree.ts'

/** Of an entry beside its content, in bytes: its place in the map. */
const overheadBytes = 512

/** Reads files that are not held, in their order, as `Tree.blobs`. */
export type ReadFiles = (files: readonly TreeFile[], limits: BlobLimits) => Promise<readonly Uint8Array[]>

/**
 * Contents by object id, those used last. Agents of all projects share them: an id is asked for only by who was told it
 * by the tree of a project that may be read.
 */
export class FileCache {
  readonly #maxBytes: number
  /** used last is the last */
  readonly #contents = new Map<string, Uint8Array>()
  #bytes = 0

  constructor(options: { readonly maxBytes: number }) {
    this.#maxBytes = options.maxBytes
  }

  get bytes(): number {
    return this.#bytes
  }

  /**
   * The contents of these files; what is not held is read, all of it at once.
   *
   * @throws KasError MANIFESTS_REFUSED if one is larger than it may be, or all are; what `read` throws
   */
  async contents(
    files: readonly TreeFile[],
    limits: BlobLimits,
    read: ReadFiles,
  ): Promise<ReadonlyMap<TreeFile, Uint8Array>> {
    const contents = new Map<TreeFile, Uint8Array>()
    let totalBytes = 0
    for (const file of files) {
      const held = this.#use(file.blob)
      if (!held) continue
      totalBytes += held.length
      checkSizes(file, { bytes: held.length, totalBytes }, limits)
      contents.set(file, held)
    }
    const missing = files.filter((file) => !contents.has(file))
    if (missing.length === 0) return contents
    const blobs = await read(missing, { ...limits, maxTotalBytes: limits.maxTotalBytes - totalBytes })
    for (const [i, file] of missing.entries()) {
      const content = blobs[i] as Uint8Array
      contents.set(file, content)
      this.#add(file.blob, content)
    }
    return contents
  }

  #use(blob: string): Uint8Array | undefined {
    const content = this.#contents.get(blob)
    if (!content) return undefined
    this.#contents.delete(blob) // to the end
    this.#contents.set(blob, content)
    return content
  }

  #add(blob: string, content: Uint8Array): void {
    const size = sizeOf(content)
    if (size > this.#maxBytes || this.#contents.has(blob)) return
    this.#contents.set(blob, content)
    this.#bytes += size
    for (const [oldest, held] of this.#contents) {
      if (this.#bytes <= this.#maxBytes) break
      this.#contents.delete(oldest)
      this.#bytes -= sizeOf(held)
    }
  }
}

function sizeOf(content: Uint8Array): number {
  return content.length + overheadBytes
}
