import { KasError } from '../../lib/errors.ts'
import type { GitMirror } from './git-mirror.ts'
import type { CommitId } from './repositories.ts'
import { type BlobLimits, checkSizes, maxTreeFiles, type Tree, type TreeFile, tooManyFiles } from './tree.ts'

/** What of a mirror a tree is read from. */
export type TreeMirror = Pick<GitMirror, 'read'>

/** The commits of a mirror, read by `git ls-tree` and one `git cat-file --batch`. */
export class GitTree implements Tree {
  readonly #mirror: TreeMirror

  constructor(mirror: TreeMirror) {
    this.#mirror = mirror
  }

  async files(commit: CommitId, folder: string, signal: AbortSignal): Promise<readonly TreeFile[]> {
    const below = folder === '' ? [] : ['--', `${folder}/`]
    const arguments_ = ['ls-tree', '-z', '-r', '--full-tree', commit, ...below]
    const listed = await this.#mirror.read((git, ended) => git.run((each) => each.raw(arguments_), ended), signal)
    const files: TreeFile[] = []
    for (const [, blob = '', path = ''] of listed.matchAll(/(?<=^|\0)100\d{3} blob ([0-9a-f]{40,64})\t([^\0]+)/g)) {
      if (files.length >= maxTreeFiles) throw tooManyFiles(folder)
      files.push({ path, blob })
    }
    return files
  }

  async blobs(
    _commit: CommitId,
    files: readonly TreeFile[],
    limits: BlobLimits,
    signal: AbortSignal,
  ): Promise<readonly Uint8Array[]> {
    if (files.length === 0) return []
    return await this.#mirror.read(async (git, ended) => {
      const reading = new BatchReading(files, limits)
      await git.pipe(['cat-file', '--batch'], files.map(({ blob }) => `${blob}\n`).join(''), {
        take: (bytes) => reading.take(bytes),
        signal: ended,
      })
      return reading.end()
    }, signal)
  }
}

/** A line of `--batch` before each object is no longer. */
const maxHeadBytes = 200

/** Objects out of what `git cat-file --batch` says, however it is cut into pieces. */
class BatchReading {
  readonly #files: readonly TreeFile[]
  readonly #limits: BlobLimits
  readonly #blobs: Buffer[] = []
  #totalBytes = 0
  #head = Buffer.alloc(0)
  /** of the object that is read, with the line break after it */
  #missing = 0
  #parts: Buffer[] = []

  constructor(files: readonly TreeFile[], limits: BlobLimits) {
    this.#files = files
    this.#limits = limits
  }

  /** @throws KasError MANIFESTS_REFUSED, REPOSITORY_FAILED */
  take(bytes: Buffer): void {
    let rest = bytes
    while (rest.length > 0) rest = this.#missing > 0 ? this.#takeContent(rest) : this.#takeHead(rest)
  }

  /** @throws KasError REPOSITORY_FAILED if one is missing */
  end(): readonly Uint8Array[] {
    if (this.#blobs.length !== this.#files.length) throw malformed('it ends in the middle')
    return this.#blobs
  }

  #takeHead(bytes: Buffer): Buffer {
    const at = bytes.indexOf(10)
    const line = Buffer.concat([this.#head, at < 0 ? bytes : bytes.subarray(0, at)])
    if (line.length > maxHeadBytes) throw malformed('a line is too long')
    this.#head = at < 0 ? line : Buffer.alloc(0)
    if (at < 0) return Buffer.alloc(0)
    const [, size] = /^[0-9a-f]+ blob (\d+)$/.exec(line.toString('latin1')) ?? []
    const file = this.#files[this.#blobs.length]
    if (size === undefined || !file) throw malformed(line.toString('latin1'))
    this.#totalBytes += Number(size)
    checkSizes(file, { bytes: Number(size), totalBytes: this.#totalBytes }, this.#limits)
    this.#missing = Number(size) + 1
    return bytes.subarray(at + 1)
  }

  #takeContent(bytes: Buffer): Buffer {
    const taken = bytes.subarray(0, this.#missing)
    this.#parts.push(taken)
    this.#missing -= taken.length
    if (this.#missing === 0) {
      this.#blobs.push(Buffer.concat(this.#parts).subarray(0, -1))
      this.#parts = []
    }
    return bytes.subarray(taken.length)
  }
}

function malformed(what: string): KasError {
  return new KasError({ code: 'REPOSITORY_FAILED', detail: `git cat-file: ${what}` })
}
