import { type BlobLimits, checkSizes, type TreeFile } from '../../repositories/tree.ts'

/** Of an entry beside its content, in bytes: its places in the tables, and the buffer of its own. */
const overheadBytes = 512

/** Reads files that are not cached, in their order, as `Tree.blobs`. */
export type ReadFiles = (files: readonly TreeFile[], limits: BlobLimits) => Promise<readonly Uint8Array[]>

export interface FileCacheOptions {
  /** of all projects */
  readonly maxBytes: number
  /** of one project: those of others stay */
  readonly maxBytesOfProject: number
}

/** Of one project as much as one source may have, which is what its agents ask for after a push, and no more. */
export function cacheBounds({
  keptBytes: maxBytes,
  maxFiles,
  maxTotalBytes,
}: {
  readonly keptBytes: number
  readonly maxFiles: number
  readonly maxTotalBytes: number
}): FileCacheOptions {
  return { maxBytes, maxBytesOfProject: Math.min(maxBytes / 2, maxTotalBytes + maxFiles * overheadBytes) }
}

/** Whose files are read, and how. */
export interface FilesOf {
  readonly projectId: bigint
  readonly limits: BlobLimits
  readonly read: ReadFiles
}

/** used last is the last */
interface CachedFiles {
  readonly contents: Map<string, Uint8Array>
  bytes: number
}

/**
 * Contents by project and object id, those used last. Agents of all projects share the room, but not the contents: how
 * fast a round comes would show what other projects have.
 */
export class FileCache {
  readonly #options: FileCacheOptions
  /** used last is the last */
  readonly #projects = new Map<bigint, CachedFiles>()
  #bytes = 0

  constructor(options: FileCacheOptions) {
    this.#options = options
  }

  get bytes(): number {
    return this.#bytes
  }

  /**
   * The contents of these files; what is not cached is read, all of it at once.
   *
   * @throws KasError MANIFESTS_REFUSED if one is larger than it may be, or all are; what `read` throws
   */
  async contents(
    files: readonly TreeFile[],
    { projectId, limits, read }: FilesOf,
  ): Promise<ReadonlyMap<TreeFile, Uint8Array>> {
    const contents = new Map<TreeFile, Uint8Array>()
    let totalBytes = 0
    for (const file of files) {
      const cached = this.#use(projectId, file.blob)
      if (!cached) continue
      totalBytes += cached.length
      checkSizes(file, { bytes: cached.length, totalBytes }, limits)
      contents.set(file, cached)
    }
    const missing = files.filter((file) => !contents.has(file))
    if (missing.length === 0) return contents
    const blobs = await read(missing, { ...limits, maxTotalBytes: limits.maxTotalBytes - totalBytes })
    for (const [i, file] of missing.entries()) {
      const content = blobs[i] as Uint8Array
      contents.set(file, content)
      this.#add(projectId, file.blob, content)
    }
    return contents
  }

  #use(projectId: bigint, blob: string): Uint8Array | undefined {
    const cached = this.#projects.get(projectId)
    const content = cached?.contents.get(blob)
    if (!cached || !content) return undefined
    toEnd(cached.contents, blob, content)
    toEnd(this.#projects, projectId, cached)
    return content
  }

  #add(projectId: bigint, blob: string, content: Uint8Array): void {
    const { maxBytes, maxBytesOfProject } = this.#options
    const size = sizeOf(content)
    const cached = this.#projects.get(projectId) ?? { contents: new Map(), bytes: 0 }
    if (size > Math.min(maxBytes, maxBytesOfProject) || cached.contents.has(blob)) return
    while (cached.bytes + size > maxBytesOfProject) this.#dropOldest(projectId, cached)
    toEnd(this.#projects, projectId, cached)
    cached.contents.set(blob, ownCopy(content))
    cached.bytes += size
    this.#bytes += size
    for (const [oldest, other] of this.#projects) {
      while (this.#bytes > maxBytes && other.bytes > 0) this.#dropOldest(oldest, other)
      if (this.#bytes <= maxBytes) break
    }
  }

  #dropOldest(projectId: bigint, cached: CachedFiles): void {
    for (const [oldest, content] of cached.contents) {
      const size = sizeOf(content)
      cached.contents.delete(oldest)
      cached.bytes -= size
      this.#bytes -= size
      break
    }
    if (cached.contents.size === 0) this.#projects.delete(projectId)
  }
}

function toEnd<Key, Value>(map: Map<Key, Value>, key: Key, value: Value): void {
  map.delete(key)
  map.set(key, value)
}

/** Part of a larger buffer, such as one of node's pool, would keep all of that. */
function ownCopy(content: Uint8Array): Uint8Array {
  if (content.buffer.byteLength === content.byteLength) return content
  const copy = Buffer.allocUnsafeSlow(content.byteLength)
  copy.set(content)
  return copy
}

function sizeOf(content: Uint8Array): number {
  return content.length + overheadBytes
}
