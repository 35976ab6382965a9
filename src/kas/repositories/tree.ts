import { KasError } from '../../lib/errors.ts'
import { printable } from '../../lib/printable.ts'
import type { CommitId, Reading } from './repositories.ts'

/** A file of a commit; a link or a submodule is not a file. */
export interface TreeFile {
  /** full path, `/` between its parts */
  readonly path: string
  /** object id, in hex: equal for equal contents */
  readonly blob: string
}

/** Files of a listing, in git's order. Each iteration makes the objects again. */
export interface TreeFiles extends Iterable<TreeFile> {
  readonly length: number
  /** links of the same folder, at most `maxTreeLinks` */
  readonly links?: readonly TreeLink[]
}

/** A symbolic link, whose blob contains its target, or a submodule. */
export interface TreeLink extends TreeFile {
  readonly isSubmodule: boolean
}

/** Links that a listing keeps. */
export const maxTreeLinks = 1000

export interface BlobLimits {
  readonly maxFileBytes: number
  /** bound of all files of one request */
  readonly maxTotalBytes: number
}

/** Content of a repository's commits. */
export interface Tree {
  /**
   * Lists the files below a folder at a commit; empty if the folder does not exist.
   *
   * @param folder - full path; empty: the root
   * @throws KasError MANIFESTS_REFUSED as `TreeCount`; REPOSITORY_FAILED, also if the commit does not exist
   */
  files(commit: CommitId, folder: string, signal: AbortSignal): Promise<TreeFiles>
  /**
   * False if there is surely no file at `path`; true if there may be one. Costs less than a read of the file.
   *
   * @throws KasError REPOSITORY_FAILED, also if the commit does not exist
   */
  mayHave(commit: CommitId, path: string, signal: AbortSignal): Promise<boolean>
  /**
   * True if `commit` is `head`, or a commit before it. False also if it is too far back to be checked.
   *
   * @throws KasError REPOSITORY_FAILED
   */
  contains(head: CommitId, commit: CommitId, signal: AbortSignal): Promise<boolean>
  /**
   * Reads the contents of these files, in their order.
   *
   * @throws KasError MANIFESTS_REFUSED if one file or all together exceed `limits`; REPOSITORY_FAILED
   */
  blobs(
    commit: CommitId,
    files: readonly TreeFile[],
    limits: BlobLimits,
    signal: AbortSignal,
  ): Promise<readonly Uint8Array[]>
}

/** Trees of projects, at any of their refs. */
export interface Trees {
  files(of: Reading, ...args: Parameters<Tree['files']>): ReturnType<Tree['files']>
  mayHave(of: Reading, ...args: Parameters<Tree['mayHave']>): ReturnType<Tree['mayHave']>
  contains(of: Reading, ...args: Parameters<Tree['contains']>): ReturnType<Tree['contains']>
  blobs(of: Reading, ...args: Parameters<Tree['blobs']>): ReturnType<Tree['blobs']>
}

/** files below one folder */
const maxFiles = 50_000
/** files, folders, links and submodules */
const maxEntries = 100_000
/** bytes of one path, as in Linux */
export const maxPathBytes = 4096
/** bytes of the paths of all entries */
const maxPathsBytes = 8 << 20
/** Characters of a path that an error shows. */
const maxShownPath = 200

/** Matches paths that git gives to no file: an empty part, `.`, `..`, NUL. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: NUL is one of them
const noPath = /(?:^|\/)\.{0,2}(?:\/|$)|\u0000/

/** Counts the entries of a folder's listing while it is read, and enforces their bounds. */
export class TreeCount {
  readonly #folder: string
  #files = 0
  #entries = 0
  #pathsBytes = 0

  constructor(folder: string) {
    this.#folder = folder
  }

  /**
   * Counts an entry; called before anything of it is kept.
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

  /** Checks the length of one path, as far as it was read. @throws KasError MANIFESTS_REFUSED */
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
