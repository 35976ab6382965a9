import { KasError } from '../../lib/errors.ts'
import { FileList } from './file-list.ts'
import type { GitMirror } from './git-mirror.ts'
import type { CommitId } from './repositories.ts'
import { type BlobLimits, checkSizes, type Tree, TreeCount, type TreeFile, type TreeFiles } from './tree.ts'

/** The part of a mirror from which a tree is read. */
export type TreeMirror = Pick<GitMirror, 'read' | 'history'>

/** The commits of a mirror, read by one `git ls-tree` and one `git cat-file --batch`. */
export class GitTree implements Tree {
  readonly #mirror: TreeMirror

  constructor(mirror: TreeMirror) {
    this.#mirror = mirror
  }

  async files(commit: CommitId, folder: string, signal: AbortSignal): Promise<TreeFiles> {
    const below = folder === '' ? [] : ['--', `${folder}/`]
    const argv = ['ls-tree', '-z', '-r', '-t', '--full-tree', commit, ...below] // with folders, which count too
    return await this.#mirror.read(async (git, ended) => {
      const reading = new ListingReading(folder)
      await git.pipe(argv, '', { take: (bytes) => reading.take(bytes), signal: ended })
      return reading.end()
    }, signal)
  }

  /** Always true: one listing answers for many agents of a commit, also for missing files. */
  async mayHave(): Promise<boolean> {
    return true
  }

  async contains(head: CommitId, commit: CommitId, signal: AbortSignal): Promise<boolean> {
    return head === commit || (await this.#mirror.history(head, signal)).has(commit)
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

/** Bound of the line before each object of `--batch`, and of the text before a path in a listing. */
const maxHeadBytes = 200

const nothing = Buffer.alloc(0)

/** The text before a path: mode, type, object id. */
const headForm = /^\d{6} \w+ [0-9a-f]{40,64}$/

/** Parses entries from the output of `git ls-tree -z`, piece by piece. */
class ListingReading {
  readonly #files = new FileList()
  readonly #count: TreeCount
  #begun = nothing

  constructor(folder: string) {
    this.#count = new TreeCount(folder)
  }

  /** @throws KasError MANIFESTS_REFUSED, REPOSITORY_FAILED */
  take(bytes: Buffer): void {
    let from = 0
    for (let end = bytes.indexOf(0); end >= 0; end = bytes.indexOf(0, from)) {
      const rest = bytes.subarray(from, end)
      this.#takeEntry(this.#begun.length === 0 ? rest : Buffer.concat([this.#begun, rest]))
      this.#begun = nothing
      from = end + 1
    }
    this.#begun = Buffer.concat([this.#begun, bytes.subarray(from)])
    this.#count.check(this.#begun.length - maxHeadBytes)
  }

  /** @throws KasError REPOSITORY_FAILED if the last entry is cut */
  end(): TreeFiles {
    if (this.#begun.length > 0) throw malformed('ls-tree', 'it ends in the middle')
    return this.#files
  }

  #takeEntry(entry: Buffer): void {
    const tab = entry.indexOf(9)
    const head = entry.toString('latin1', 0, Math.max(0, tab))
    if (!headForm.test(head)) throw malformed('ls-tree', entry.toString('latin1', 0, maxHeadBytes))
    const path = entry.subarray(tab + 1)
    const isFile = head.startsWith('100') && head.startsWith('blob ', 'mode00 '.length)
    this.#count.add(path, isFile)
    const blob = head.slice(head.lastIndexOf(' ') + 1)
    if (isFile) this.#files.add(path, blob)
    else if (/^(?:120000 blob|160000 commit) /.test(head)) this.#files.addLink(path, blob, head.startsWith('16'))
  }
}

/** Parses objects from the output of `git cat-file --batch`, piece by piece. */
class BatchReading {
  readonly #files: readonly TreeFile[]
  readonly #limits: BlobLimits
  readonly #blobs: Buffer[] = []
  #totalBytes = 0
  #head = nothing
  /** content of the current object, in a buffer of its own, which callers keep without a copy */
  #content = nothing
  /** missing bytes of the object and of the line break after it */
  #missing = 0

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
    if (this.#blobs.length !== this.#files.length) throw malformed('cat-file', 'it ends in the middle')
    return this.#blobs
  }

  #takeHead(bytes: Buffer): Buffer {
    const at = bytes.indexOf(10)
    const line = Buffer.concat([this.#head, at < 0 ? bytes : bytes.subarray(0, at)])
    if (line.length > maxHeadBytes) throw malformed('cat-file', 'a line is too long')
    this.#head = at < 0 ? line : nothing
    if (at < 0) return nothing
    const [, size] = /^[0-9a-f]+ blob (\d+)$/.exec(line.toString('latin1')) ?? []
    const file = this.#files[this.#blobs.length]
    if (size === undefined || !file) throw malformed('cat-file', line.toString('latin1'))
    this.#totalBytes += Number(size)
    checkSizes(file, { bytes: Number(size), totalBytes: this.#totalBytes }, this.#limits)
    this.#content = Buffer.allocUnsafeSlow(Number(size))
    this.#missing = Number(size) + 1
    return bytes.subarray(at + 1)
  }

  #takeContent(bytes: Buffer): Buffer {
    const taken = bytes.subarray(0, this.#missing)
    taken.copy(this.#content, this.#content.length + 1 - this.#missing) // all but the line break
    this.#missing -= taken.length
    if (this.#missing === 0) this.#blobs.push(this.#content)
    return bytes.subarray(taken.length)
  }
}

function malformed(command: string, what: string): KasError {
  return new KasError({ code: 'REPOSITORY_FAILED', detail: `git ${command}: ${what}` })
}
