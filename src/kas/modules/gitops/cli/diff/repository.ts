import { UsageError } from '../../../../command/command.ts'
import { type Environment, runGit } from './git.ts'

/**
 * Returns the top folder of the repository that `folder` is in.
 *
 * @throws UsageError: there is no work tree of Git
 */
export async function topFolder(folder: string, env: Environment): Promise<string> {
  const { code, stdout, problem } = await runGit(folder, ['rev-parse', '--show-toplevel'], env)
  const top = stdout.toString('utf8').replace(/\n$/, '')
  if (problem.includes('dubious ownership'))
    throw new UsageError(`${problem}. If you trust its files: git config --global --add safe.directory ${folder}`)
  if (code !== 0 || top === '') throw new UsageError(`${folder} is in no work tree of Git: ${problem}`)
  return top
}

/** Address of a repository by ssh without a scheme: `git@gitlab.example.com:platform/shop.git`. */
const sshAddress = /^[^/:]+:(?!\/\/)(.+)$/

/**
 * Returns the path of the project in GitLab: of the job, or of the remote `origin`. A remote may have the root path of
 * GitLab before it. One in a folder of the machine is a whole path, which begins with `/`.
 *
 * @returns undefined: there is no remote
 */
export async function projectPath(top: string, env: Environment): Promise<string | undefined> {
  if (env.CI_PROJECT_PATH) return env.CI_PROJECT_PATH
  const { code, stdout } = await runGit(top, ['remote', 'get-url', 'origin'], env)
  const address = stdout.toString('utf8').trim()
  if (code !== 0 || address === '') return undefined
  const [, ssh] = sshAddress.exec(address) ?? []
  const path = ssh ?? (URL.canParse(address) ? decoded(new URL(address).pathname) : address)
  const isLocal = path === address && path.startsWith('/')
  return path
    .replace(/^\/+/, isLocal ? '/' : '')
    .replace(/\/+$/, '')
    .replace(/\.git$/, '')
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    return path // it is no project of GitLab
  }
}

/** State of a commit in the history of the checkout. */
export type Ancestry = 'contained' | 'lacking' | 'unknown'

/** Finds whether the history of HEAD has a commit. A shallow clone does not have all of its history. */
export async function commitAncestry(top: string, commit: string, env: Environment): Promise<Ancestry> {
  const { code } = await runGit(top, ['merge-base', '--is-ancestor', commit, 'HEAD'], env)
  if (code === 0) return 'contained'
  const shallow = await runGit(top, ['rev-parse', '--is-shallow-repository'], env)
  return shallow.stdout.toString('utf8').trim() === 'false' ? 'lacking' : 'unknown'
}

/** Form of an id of a commit: agentk may report any text. */
const commitForm = /^[0-9a-f]{40}(?:[0-9a-f]{24})?$/
const shortLength = 8

/**
 * Returns a sentence about the commit in the cluster that the history of HEAD lacks. The comparison then shows changes
 * that others have merged meanwhile, in reverse.
 *
 * @returns undefined: the history has it, or nothing is in the cluster
 */
export async function historyText(top: string, commit: string, env: Environment): Promise<string | undefined> {
  if (!commitForm.test(commit)) return undefined
  const ancestry = await commitAncestry(top, commit, env)
  const short = commit.slice(0, shortLength)
  if (ancestry === 'contained') return undefined
  if (ancestry === 'lacking') return `this branch lacks commit ${short}, which is in the cluster: merge or rebase first`
  return `unknown: does this branch have commit ${short}, which is in the cluster? The clone is shallow: git fetch --unshallow`
}
