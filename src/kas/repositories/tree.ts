import { KasError } from '../../lib/errors.ts'
import type { CommitId, Reading } from './repositories.ts'

/** A file of a commit: a link or a submodule is none. */
export interface TreeFile {
  /** full path, `/` between its parts */
  readonly path: string
  /** object id, in hex: equal for equal contents */
  readonly blob: string
}

export interface BlobLimits {
  readonly maxFileBytes: number
  /** of all files that are asked for at once */
  readonly maxTotalBytes: number
}

/** What commits of one repository hold. */
export interface Tree {
  /**
   * The files below a folder at a commit, in the order of git; none if the folder is not there.
   *
   * @param folder - full path; empty: the root
   * @throws KasError MANIFESTS_REFUSED if there are more than `maxTreeFiles`; REPOSITORY_FAILED, also if the commit is
   * not there
   */
  files(commit: CommitId, folder: string, signal: AbortSignal): Promise<readonly TreeFile[]>
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
  blobs(of: Reading, ...args: Parameters<Tree['blobs']>): ReturnType<Tree['blobs']>
}

/** Below one folder. */
export const maxTreeFiles = 50_000

/** @throws KasError MANIFESTS_REFUSED */
export function checkSizes(
  { path }: TreeFile,
  { bytes, totalBytes }: { bytes: number; totalBytes: number },
  { maxFileBytes, maxTotalBytes }: BlobLimits,
): void {
  if (bytes > maxFileBytes) throw refused(`${path}: has ${bytes} bytes, more than ${maxFileBytes}`)
  if (totalBytes > maxTotalBytes) throw refused(`${path}: with the files before it more than ${maxTotalBytes} bytes`)
}

export function tooManyFiles(folder: string): KasError {
  return refused(`more than ${maxTreeFiles} files below ${folder === '' ? 'the root of the repository' : folder}`)
}

function refused(detail: string): KasError {
  return new KasError({ code: 'MANIFESTS_REFUSED', detail })
}
