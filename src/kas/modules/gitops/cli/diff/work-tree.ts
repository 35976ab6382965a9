import { lstat, readlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Environment } from './git.ts'
import { openChanges, trackedFiles } from './tracked-files.ts'

/** Files whose state is read at once. */
const atOnce = 64

/** Files of a change: what Git tracks, as it is in the work tree. */
export interface WorkTree {
  /** top folder of the repository */
  readonly top: string
  /** paths from the top */
  readonly files: readonly string[]
  /** symbolic links: kas follows them, as those of a commit */
  readonly links: readonly TrackedLink[]
  /** tracked files that are missing from the work tree: they count as deleted */
  readonly missing: readonly string[]
  readonly uncommitted: number
  readonly untracked: number
}

export interface TrackedLink {
  readonly path: string
  readonly target: string
}

/** @throws UsageError: nothing is tracked, a name cannot be sent, or the checkout is sparse */
export async function readWorkTree(top: string, env: Environment): Promise<WorkTree> {
  const tracked = await trackedFiles(top, env)
  const folders = new Map<string, Promise<boolean>>()
  const isFolder = (path: string): Promise<boolean> => {
    if (path === '.') return Promise.resolve(true)
    const known = folders.get(path)
    if (known) return known
    const found = isFolder(dirname(path)).then(
      async (isIn) => isIn && (await statOf(join(top, path)))?.isDirectory() === true,
    )
    folders.set(path, found)
    return found
  }
  const [files, links, missing]: [string[], TrackedLink[], string[]] = [[], [], []]
  for (let from = 0; from < tracked.length; from += atOnce) {
    const part = tracked.slice(from, from + atOnce)
    const found = await Promise.all(
      // Git counts a file behind a link as missing
      part.map(async (path) => ((await isFolder(dirname(path))) ? await statOf(join(top, path)) : undefined)),
    )
    for (const [i, path] of part.entries()) {
      if (found[i]?.isFile()) files.push(path)
      else if (found[i]?.isSymbolicLink()) links.push({ path, target: await readlink(join(top, path)) })
      else missing.push(path)
    }
  }
  return { top, files, links, missing, ...(await openChanges(top, env)) }
}

/** @returns undefined: there is none */
async function statOf(path: string) {
  try {
    return await lstat(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw error
  }
}

/** Names in a sentence. */
const maxNamed = 3

/** Returns a sentence for each way in which the work tree is not the commit at HEAD. */
export function workTreeTexts({ missing, uncommitted, untracked }: WorkTree): readonly string[] {
  const named = missing
    .slice(0, maxNamed)
    .map((path) => JSON.stringify(path))
    .join(', ')
  const rest = missing.length > maxNamed ? ` and ${missing.length - maxNamed} more` : ''
  return [
    ...(uncommitted > 0 ? [`${haveText(uncommitted)} changes that are not committed: the preview includes them`] : []),
    ...(missing.length > 0
      ? [
          `${areText(missing.length)} missing from the work tree ${missing.length === 1 ? 'and counts' : 'and count'} as deleted: ${named}${rest}`,
        ]
      : []),
    ...(untracked > 0
      ? [
          `${areText(untracked)} not tracked by Git: the preview leaves ${untracked === 1 ? 'it' : 'them'} out until git add`,
        ]
      : []),
  ]
}

function haveText(count: number): string {
  return `${count} ${count === 1 ? 'file has' : 'files have'}`
}

function areText(count: number): string {
  return `${count} ${count === 1 ? 'file is' : 'files are'}`
}
