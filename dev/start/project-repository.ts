import { execFile } from 'node:child_process'
import { devNull } from 'node:os'

const author = { NAME: 'npm start', EMAIL: 'npm-start@localhost' }

/**
 * Makes a bare Git repository at `path` whose default branch `main` holds `files` in one commit. Neither this
 * user's nor the machine's Git settings have a say in it.
 *
 * @param files - contents by path
 */
export async function createProjectRepository(path: string, files: Readonly<Record<string, string>>): Promise<void> {
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
    child.stdin?.on('error', () => undefined) // its exit tells more
    child.stdin?.end(input)
  })
}
