import { posix } from 'node:path'
import { hasControls, printable } from '../../../../lib/printable.ts'
import type { ManifestProblem, RepositoryFile } from '../manifests/manifest.ts'

/** Files of a commit by their paths, and the folders of these. */
export class FileSet {
  readonly files: ReadonlyMap<string, RepositoryFile>
  readonly #folders = new Set<string>(['.'])

  constructor(files: readonly RepositoryFile[]) {
    this.files = new Map(files.map((file) => [file.path, file]))
    for (const path of this.files.keys()) {
      for (let at = path.indexOf('/'); at >= 0; at = path.indexOf('/', at + 1)) this.#folders.add(path.slice(0, at))
    }
  }

  isFile(path: string): boolean {
    return this.files.has(path)
  }

  isFolder(path: string): boolean {
    return this.#folders.has(path)
  }

  /** Resolves a path that a file of `folder` names, from the root; undefined: it leads outside, or is no path. */
  resolve(folder: string, path: string): string | undefined {
    if (path === '' || path.startsWith('/') || path.includes('://') || path.includes('\0')) return undefined
    const resolved = posix.join(folder, path).replace(/\/$/, '')
    return resolved === '..' || resolved.startsWith('../') ? undefined : resolved
  }
}

/** Checks that paths are from the root, without dots and control characters. @returns the first that is not */
export function unsafePath(files: readonly RepositoryFile[]): ManifestProblem | undefined {
  const isSafe = (path: string) => /[^/]$/.test(path) && !hasControls(path) && posix.join('/', path) === `/${path}`
  const unsafe = files.find(({ path }) => !isSafe(path))
  return unsafe && problemOf(unsafe, 'the path is not one of a repository, or has control characters')
}

/** Limit of nested folders in a path, for files that a program reads. */
const maxFolders = 64
/** Limit of the name of such a file or folder, as in file systems. Bytes */
const maxNameBytes = 255
/** Limit of such a path: Linux takes 4,095, with the temporary folder before it. Bytes */
const maxPathBytes = 3072
/** Limit of a path in a problem. Characters */
const maxShownPath = 200

/** Returns the problem for which files cannot be written for a program. */
export function pathProblem(files: readonly RepositoryFile[]): ManifestProblem | undefined {
  const unsafe = unsafePath(files)
  if (unsafe) return unsafe
  for (const file of files) {
    const text = tooLong(file.path)
    if (text !== undefined) return problemOf(file, text)
  }
  const set = new FileSet(files)
  const both = files.find(({ path }) => set.isFolder(path))
  return both && problemOf(both, 'the path is that of a folder too')
}

function problemOf({ path }: RepositoryFile, text: string): ManifestProblem {
  return { file: printable(path.slice(0, maxShownPath)), line: 0, text }
}

function tooLong(path: string): string | undefined {
  if (path.split('/', maxFolders + 2).length > maxFolders + 1) return `the path has more than ${maxFolders} folders`
  if (Buffer.byteLength(path) > maxPathBytes) return `the path has more than ${maxPathBytes} bytes`
  const isLong = path.split('/').some((name) => Buffer.byteLength(name) > maxNameBytes)
  return isLong ? `the path has a name of more than ${maxNameBytes} bytes` : undefined
}
