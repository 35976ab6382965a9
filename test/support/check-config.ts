import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Test } from 'tap'
import { runCli } from '../../src/kas/cli/cli.ts'

/** Result of `kas check-config`. */

export interface Checked {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

export async function checkConfig(args: readonly string[], env: Record<string, string> = {}): Promise<Checked> {
  const said = { stdout: '', stderr: '' }
  const to = (name: 'stdout' | 'stderr') => ({
    write: (text: string) => {
      said[name] += text
    },
  })
  const io = { env, stdout: to('stdout'), stderr: to('stderr'), stdin: (async function* () {})() }
  return { code: await runCli(['check-config', ...args], io), ...said }
}

/** Makes a folder for this test. @returns it, and a function that writes a file there and returns its path */
export async function configFolder(t: Test) {
  const folder = await mkdtemp(join(tmpdir(), 'check-config-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const write = async (name: string, text: string) => {
    const file = join(folder, name)
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, text, text.startsWith('\u00ff') ? 'latin1' : 'utf8') // bytes of another encoding
    return file
  }
  return { folder, write }
}

/** Checks one file. In the answer its path has no folder, and stderr must be empty. */
export async function checkFile(t: Test, option: string, file: string, more: readonly string[] = []) {
  const { code, stdout, stderr } = await checkConfig([`--${option}`, file, ...more])
  if (stderr !== '') t.fail(stderr)
  return { code, stdout: stdout.replaceAll(`${dirname(file)}/`, '') }
}
