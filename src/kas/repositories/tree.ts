import { KasError } from '../../lib/errors.ts'
import { printable } from '../../lib/printable.ts'
import type { CommitId, Reading } from './repositories.ts'

/** A file of a commit: a link or a submodule is none. */
export interface TreeFile {
  /** full path, `/` between its parts */
  readonly path: string
  /** object id, in hex: equal for equal contents */
  readonly blob: string
}

/** Those of a listing, in the order of git; each is made anew for whoever goes through them. */
export interface TreeFiles extends Iterable<TreeFile> {
  readonly length: number
  /** of the same folder: the first of them */
  readonly links?: readonly TreeLink[]
}

/** A symbolic link, whose blob holds where it leads, or a submodule. */
export interface TreeLink extends TreeFile {
  readonly isSubmodule: boolean
}

/** Links of a listing that are kept. */
export const maxTreeLinks = 1000

export interface BlobLimits {
  readonly maxFileBytes: number
  /** of all files that are asked for at once */
  readonly maxTotalBytes: number
}

/** What commits of one repository hold. */
export interface Tree {
  /**
   * The files below a folder at a commit; none if the folder is not there.
   *
   * @param folder - full path; empty: the root
   * @throws KasError MANIFESTS_REFUSED as `TreeCount`; REPOSITORY_FAILED, also if the commit is not there
   */
  files(commit: CommitId, folder: string, signal: AbortSignal): Promise<TreeFiles>
  /**
   * Whether there may be a file at `path`, for less than it costs to find none there; `false` is sure.
   *
   * @throws KasError REPOSITORY_FAILED, also if the commit is not there
   */
  mayHave(commit: CommitId, path: string, signal: AbortSignal): Promise<boolean>
  /**
   * Whether `commit` is `head`, or a commit before it. `false`: it is not, or so far back that the repository is not asked.
   *
   * @throws KasError REPOSITORY_FAILED
   */
  contains(head: CommitId, commit: CommitId, signal: AbortSignal): Promise<boolean>
  /**
   * The contents of these files, in their order.
   *
   * @throws KasError MANIFESTS_REFUSED if one is larger than it may be, or all are; REPOSITORY_FAILED
   */
  blobs(
    commit: CommitId,
    files: readonly TreeFile[],
    limits: BlobLimits,
    signal: AbortSignal,
  ): Promise<readonly Uint8Array[]>
}

/** Trees of projects, at any ref of theirs. */
export interface Trees {
  files(of: Reading, ...args: Parameters<Tree['files']>): ReturnType<Tree['files']>
  mayHave(of: Reading, ...args: Parameters<Tree['mayHave']>): ReturnType<Tree['mayHave']>
  contains(of: Reading, ...args: Parameters<Tree['contains']>): ReturnType<Tree['contains']>
  blobs(of: Reading, ...args: Parameters<Tree['blobs']>): ReturnType<Tree['blobs']>
}

/** Below one folder. */
const maxFiles = 50_000
/** files, folders, links and submodules */
const maxEntries = 100_000
const maxPathBytes = 4096
/** of all entries */
const maxPathsBytes = 8 << 20
/** Of a path that an error names, in characters. */
const maxShownPath = 200

/** A path with it is none that git gives to a file: an empty part, `.`, `..`, NUL. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: NUL is one of them
const noPath = /(?:^|\/)\.{0,2}(?:\/|$)|\u0000/

/** What a listing of a folder may hold, counted while it is read. */
export class TreeCount {
  readonly #folder: string
  #files = 0
  #entries = 0
  #pathsBytes = 0

  constructor(folder: string) {
    this.#folder = folder
  }

  /**
   * Called for each entry before anything is kept of it.
   *
   * @throws KasError MANIFESTS_REFUSED
   */
  add(path: Uint8Array, isFile: boolean): void {
    const pathBytes = path.length
    this.#entries += 1
    this.#pathsBytes += pathBytes
    if (isFile) this.#files += 1
    if (this.#files > maxFiles) throw this.#refused(`more than ${maxFiles} files`)
    if (this.#entries > maxEntries) throw this.#refused(`more than ${maxEntries} files and folders`)
    this.check(pathBytes)
    if (this.#pathsBytes > maxPathsBytes) throw this.#refused(`paths of more than ${maxPathsBytes} bytes in all`)
    if (isFile) this.#checkForm(path)
  }

  /** One path, as far as it has come. @throws KasError MANIFESTS_REFUSED */
  check(pathBytes: number): void {
    if (pathBytes > maxPathBytes) throw this.#refused(`a path of more than ${maxPathBytes} bytes`)
  }

  #checkForm(path: Uint8Array): void {
    const text = Buffer.from(path.buffer, path.byteOffset, path.byteLength).toString('latin1')
    if (!noPath.test(text)) return
    throw this.#refused(`the path ${printable(text.slice(0, maxShownPath))}, which no file of a repository can have,`)
  }

  #refused(what: string): KasError {
    return refused(`${what} below ${this.#folder === '' ? 'the root of the repository' : this.#folder}`)
  }
}

/** @throws KasError MANIFESTS_REFUSED */
export function checkSizes(
  { path }: TreeFile,
  { bytes, totalBytes }: { bytes: number; totalBytes: number },
  { maxFileBytes, maxTotalBytes }: BlobLimits,
): void {
  if (bytes > maxFileBytes) throw refused(`${path}: has ${bytes} bytes, more than ${maxFileBytes}`)
  if (totalBytes > maxTotalBytes) throw refused(`${path}: with the files before it more than ${maxTotalBytes} bytes`)
}

function refused(detail: string): KasError {
  return new KasError({ code: 'MANIFESTS_REFUSED', detail })
}
