import { UsageError } from '../../../../command/command.ts'
import { type Environment, runGit } from './git.ts'

/** Limit of the number of files in a repository that are packed. */
const maxFiles = 1_000_000

/** Mode of a submodule. kas reads none of a commit, either. */
const submoduleMode = '160000'

/** Form of a file in the output of `git ls-files -z -t --stage`: `H 100644 <id> 0\t<path>`. */
const entryForm = /^(\S) (\d{6}) [0-9a-f]+ \d\t/

/** Control characters: a name with a line break passes for two. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what it is about
const controls = /[\u0000-\u001f\u007f]/

/**
 * Lists the files that Git tracks, by their paths from the top of the repository, without submodules.
 *
 * @throws UsageError: nothing is tracked, a name cannot be sent, or the checkout is sparse
 */
export async function trackedFiles(top: string, env: Environment): Promise<readonly string[]> {
  const { code, stdout, problem } = await runGit(top, ['ls-files', '-z', '-t', '--stage'], env)
  if (code !== 0) throw new UsageError(`${top}: git ls-files has failed: ${problem}`)
  const paths = new Set<string>()
  for (let from = 0; from < stdout.length; ) {
    const end = stdout.indexOf(0, from)
    const until = end < 0 ? stdout.length : end
    const path = pathOf(stdout.subarray(from, until))
    if (path !== undefined) paths.add(path) // a path with a conflict is listed once for each side
    if (paths.size > maxFiles) throw new UsageError(`${top}: Git tracks more than ${maxFiles} files`)
    from = until + 1
  }
  if (paths.size === 0) throw new UsageError(`${top}: Git tracks no file. git add names the files of a change`)
  return [...paths]
}

function pathOf(entry: Buffer): string | undefined {
  const text = entry.toString('utf8')
  const [head = '', tag, mode = ''] = entryForm.exec(text) ?? []
  if (head === '') throw new UsageError('git ls-files prints what this command does not understand')
  if (mode === submoduleMode) return undefined
  const path = text.slice(head.length)
  if (!Buffer.from(text).equals(entry)) throw new UsageError(`${quoted(path)}: the name of a file is no UTF-8`)
  if (controls.test(path))
    throw new UsageError(`${quoted(path)}: the name of a file has a line break or a control character`)
  if (tag === 'S')
    throw new UsageError(`${quoted(path)} is not in the work tree: the checkout is sparse. git sparse-checkout disable`)
  return path
}

const quoted = (path: string) => JSON.stringify(path)

/** Numbers of files whose content differs from HEAD, and of files that Git does not track. */
export interface OpenChanges {
  readonly uncommitted: number
  readonly untracked: number
}

/** Counts the changes that are not committed. A folder without a tracked file counts as one file. */
export async function openChanges(top: string, env: Environment): Promise<OpenChanges> {
  const args = ['status', '--porcelain=v1', '-z', '--no-renames', '--untracked-files=normal', '--ignore-submodules']
  const { code, stdout, problem } = await runGit(top, args, env)
  if (code !== 0) throw new UsageError(`${top}: git status has failed: ${problem}`)
  const entries = stdout.toString('latin1').split('\0').filter(Boolean)
  const untracked = entries.filter((entry) => entry.startsWith('?? ')).length
  return { uncommitted: entries.length - untracked, untracked }
}
