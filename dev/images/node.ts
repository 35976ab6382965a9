import { execFile } from 'node:child_process'
import { hash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { boundedRun } from './bounded-run.ts'
import { withoutSymbols } from './elf.ts'
import type { Architecture } from './oci-layout.ts'

const run = promisify(execFile)
/** limit of npm, whose registry may not answer */
const packTimeoutMs = 300_000
const platforms = { amd64: 'linux-x64', arm64: 'linux-arm64' }

export interface Node {
  readonly name: string
  readonly version: string
  readonly integrity: string
  readonly program: Buffer
  readonly license: Buffer
}

/**
 * Returns the Node of the lock file for a processor: as npm installed it here, or from its cache or its registry.
 *
 * @param cache - a permanent folder
 * @throws Error if npm gives another one than the lock file has, or none
 */
export async function nodeFor(root: string, architecture: Architecture, cache: string): Promise<Node> {
  const name = `node-${platforms[architecture]}`
  const lock = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8'))
  const { version, integrity } = lock.packages[`node_modules/${name}`] as { version: string; integrity?: string }
  const installed = join(root, 'node_modules', name)
  const folder = join(cache, 'node', `${name}-${version}`)
  const isInstalled = (await versionIn(installed)) === version
  if (!isInstalled && !existsSync(folder)) await fetchNode({ name, version, integrity }, folder)
  const read = (file: string) => readFile(isInstalled ? join(installed, file) : join(folder, 'package', file))
  const [program, license] = await Promise.all([read('bin/node'), read('LICENSE')])
  return { name, version, integrity: integrity ?? '', program: withoutSymbols(program), license }
}

async function versionIn(folder: string): Promise<string | undefined> {
  const file = join(folder, 'package.json')
  return existsSync(file) ? (JSON.parse(await readFile(file, 'utf8')) as { version: string }).version : undefined
}

async function fetchNode(
  { name, version, integrity }: { name: string; version: string; integrity: string | undefined },
  folder: string,
): Promise<void> {
  await mkdir(dirname(folder), { recursive: true })
  const partial = await mkdtemp(`${folder}.`)
  try {
    const args = ['pack', '--prefer-offline', '--fetch-retries=1', '--loglevel=error', `${name}@${version}`]
    const stdout = await boundedRun('npm', args, { cwd: partial, timeoutMs: packTimeoutMs })
    const file = join(partial, stdout.trim().split('\n').at(-1) ?? '')
    const digest = `sha512-${hash('sha512', await readFile(file), 'base64')}`
    if (digest !== integrity) throw new Error(`${name}@${version} is not the one of package-lock.json: ${digest}`)
    await run('tar', ['-xzf', file, '-C', partial])
    await rm(file)
    await rename(partial, folder).catch(() => undefined) // another was first
  } finally {
    await rm(partial, { recursive: true, force: true })
  }
}
