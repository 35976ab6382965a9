import { execFile } from 'node:child_process'
import { devNull } from 'node:os'

const author = { NAME: 'npm start', EMAIL: 'npm-start@localhost' }

/** Contents by path. */
export type RepositoryFiles = Readonly<Record<string, string>>

/**
 * Makes a bare Git repository at `path` whose default branch `main` has `files` in one commit. The Git settings of this
 * user and of the machine do not matter.
 */
export async function createProjectRepository(path: string, files: RepositoryFiles): Promise<void> {
  await git(undefined, ['init', '--quiet', '--bare', path])
  const entries: string[] = []
  for (const [name, content] of Object.entries(files)) {
    const blob = await git(path, ['hash-object', '-w', '--stdin'], content)
    entries.push(`100644 ${blob}\t${name}`)
  }
  await git(path, ['update-index', '--add', '--index-info'], `${entries.join('\n')}\n`)
  const tree = await git(path, ['write-tree'])
  const commit = await git(path, ['commit-tree', tree, '-m', 'Configure the agent'])
  await git(path, ['update-ref', 'refs/heads/main', commit])
  await git(path, ['symbolic-ref', 'HEAD', 'refs/heads/main'])
}

/** Makes a clone to push from, with an author of its own: it needs none of this user's Git settings. */
export async function cloneRepository(path: string, clone: string): Promise<void> {
  await git(undefined, ['clone', '--quiet', path, clone])
  for (const [field, value] of Object.entries(author)) {
    await git(undefined, ['-C', clone, 'config', `user.${field.toLowerCase()}`, value])
  }
}

function git(repository: string | undefined, args: readonly string[], input = ''): Promise<string> {
  const own = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('GIT_')))
  const identity = ['AUTHOR', 'COMMITTER'].flatMap((role) =>
    Object.entries(author).map(([field, value]) => [`GIT_${role}_${field}`, value]),
  )
  const env = {
    ...own,
    ...Object.fromEntries(identity),
    GIT_CONFIG_GLOBAL: devNull,
    GIT_CONFIG_NOSYSTEM: '1',
    ...(repository === undefined ? {} : { GIT_DIR: repository }),
  }
  return new Promise((resolve, reject) => {
    const child = execFile('git', [...args], { env, timeout: 30_000 }, (error, stdout, stderr) => {
      if (!error) return resolve(stdout.trim())
      const absent = (error as NodeJS.ErrnoException).code === 'ENOENT'
      reject(new Error(absent ? 'There is no git on the PATH' : `git ${args[0]}: ${stderr.trim() || error.message}`))
    })
    child.stdin?.on('error', () => undefined) // its exit has the reason
    child.stdin?.end(input)
  })
}
