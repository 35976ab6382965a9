import { execFileSync } from 'node:child_process'

/** Makes a bare repository with one commit and no files: agents get an empty configuration. */
export function emptyRepository(folder: string): void {
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', folder, '-c', 'user.name=bench', '-c', 'user.email=bench@example.com', ...args], {
      encoding: 'utf8',
      input: '',
    }).trim()
  execFileSync('git', ['init', '--quiet', '--bare', '--initial-branch=main', folder])
  const tree = git('hash-object', '-t', 'tree', '-w', '--stdin')
  git('update-ref', 'refs/heads/main', git('commit-tree', '-m', 'Begin', tree))
}
