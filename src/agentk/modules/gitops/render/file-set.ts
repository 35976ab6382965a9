import { posix } from 'node:path'
import type { ManifestProblem, RepositoryFile } from '../manifests/manifest.ts'

/** The files of a commit by their paths, and the folders that they make. */
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

  /** A path that stands in a file of `folder`, from the root; undefined: it leads outside, or is none. */
  resolve(folder: string, path: string): string | undefined {
    if (path === '' || path.startsWith('/') || path.includes('://') || path.includes('\0')) return undefined
    const resolved = posix.join(folder, path).replace(/\/$/, '')
    return resolved === '..' || resolved.startsWith('../') ? undefined : resolved
  }
}

/** As in a repository: from its root, without dots. @returns the first that is not */
export function unsafePath(files: readonly RepositoryFile[]): string | undefined {
  const isSafe = (path: string) => /[^/]$/.test(path) && !path.includes('\0') && posix.join('/', path) === `/${path}`
  return files.find(({ path }) => !isSafe(path))?.path
}

/** Of folders inside one another that a path may have, where files are written for a program. */
const maxFolders = 64

/** Why files cannot be written for a program. */
export function pathProblem(files: readonly RepositoryFile[]): ManifestProblem | undefined {
  const file = unsafePath(files)
  if (file !== undefined) return { file, line: 0, text: 'the path is not one of a repository' }
  const deep = files.find(({ path }) => path.split('/', maxFolders + 2).length > maxFolders + 1)
  return deep && { file: deep.path.slice(0, 200), line: 0, text: `the path has more than ${maxFolders} folders` }
}
