import { type BlobLimits, checkSizes, type TreeFile } from '../../repositories/tree.ts'

/** Bytes of an entry beside its content: its places in the tables, and its own buffer. */
const overheadBytes = 512

/** Reads files that are not cached, in their order, as `Tree.blobs`. */
export type ReadFiles = (files: readonly TreeFile[], limits: BlobLimits) => Promise<readonly Uint8Array[]>

export interface FileCacheOptions {
  /** bound of all projects */
  readonly maxBytes: number
  /** bound of one project, which leaves room for others */
  readonly maxBytesOfProject: number
}

/** Bounds a project's files to as much as one source may have: its agents ask for these after a push. */
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

/** Project of the files, and how to read them. */
export interface FilesOf {
  readonly projectId: bigint
  readonly limits: BlobLimits
  readonly read: ReadFiles
}

/** least recently used first */
interface CachedFiles {
  readonly contents: Map<string, Uint8Array>
  bytes: number
}

/**
 * Contents by project and object id, least recently used first out. Agents of all projects share the room, but not the
 * contents: the speed of a round would show what other projects have.
 */
export class FileCache {
  readonly #options: FileCacheOptions
  /** least recently used first */
  readonly #projects = new Map<bigint, CachedFiles>()
  #bytes = 0

  constructor(options: FileCacheOptions) {
    this.#options = options
  }

  get bytes(): number {
    return this.#bytes
  }

  /**
   * Returns the contents of these files; reads all missing ones at once.
   *
   * @throws KasError MANIFESTS_REFUSED if one file or all together exceed `limits`; errors of `read`
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

/** Copies a content that is part of a larger buffer, such as one of node's pool: it would keep the whole buffer. */
function ownCopy(content: Uint8Array): Uint8Array {
  if (content.buffer.byteLength === content.byteLength) return content
  const copy = Buffer.allocUnsafeSlow(content.byteLength)
  copy.set(content)
  return copy
}

function sizeOf(content: Uint8Array): number {
  return content.length + overheadBytes
}
