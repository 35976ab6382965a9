import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import type { Test } from 'tap'
import { runCli } from '../../../../src/kas/cli/cli.ts'
import { parseDirectory } from '../../../../src/kas/directory/file/directory-contents.ts'

export const commented = `# who is who
projects:
  # the clusters
  - { id: 1, path: platform/clusters, groups: [{ id: 7, path: platform }], git: { url: /srv/git/x.git } } # here
agents: [] # none yet
`

/** Makes a folder with a directory file, and runs commands there. */
export function world(t: Test, text?: string) {
  const folder = t.testdir(text === undefined ? {} : { 'directory.yaml': text })
  const file = join(folder, 'directory.yaml')
  const run = async (
    command: string,
    env: Readonly<Record<string, string>>,
    { stdin = '', said = () => undefined }: { stdin?: string; said?: (note: string) => void } = {},
  ) => {
    const out = { code: 0, stdout: '', stderr: '' }
    const sink = (name: 'stdout' | 'stderr') => ({
      write: (chunk: string) => {
        out[name] += chunk
        if (name === 'stderr') said(chunk)
      },
    })
    out.code = await runCli(command.split(' '), {
      env,
      stdout: sink('stdout'),
      stderr: sink('stderr'),
      stdin: Readable.from([stdin]),
    })
    return out
  }
  const kas = (command: string, stdin = '') => run(command, { KAS_DIRECTORY_FILE: file }, { stdin })
  const kasWith = (env: Readonly<Record<string, string>>, command: string) =>
    run(command, { KAS_DIRECTORY_FILE: file, ...env })
  const read = async () => parseDirectory(file, await readFile(file, 'utf8')).contents
  return { folder, file, kas, kasWith, run, read }
}
