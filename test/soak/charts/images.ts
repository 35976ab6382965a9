import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { makeImages } from '../../../dev/images/images.ts'
import { extractOlderVersion } from '../../support/older-version.ts'

const root = resolve(import.meta.dirname, '../../..')
const architecture = process.arch === 'arm64' ? 'arm64' : 'amd64'
const names = ['kas', 'agentk'] as const

/** tag of the images of the older version, whose programs print this tree's version */
export const versionBefore = '0.0.9'

/** Files of this tree that make images. */
const script = ['dev/images', 'dev/package', 'dev/node-flags.ts', 'package-lock.json', 'tsconfig.json']
  // files that go with the programs
  .concat('bin', 'deploy', 'doc', 'README.md', 'LICENSE', 'CHANGELOG.md')
  // the script packs rules of health in a form that this file reads
  .concat('src/agentk/health/custom/vendors.ts')

/**
 * Makes the images of both versions.
 *
 * @param to - gets the folders `this` and `before`, each with the images kas and agentk of this machine's processor
 */
export async function makeBoth(to: string): Promise<void> {
  const places = { this: join(to, 'this'), before: join(to, 'before') }
  await mkdir(places.this)
  await makeImages({ to: places.this, names, architectures: [architecture] })
  await makeBefore(places.before)
}

/** Makes images of the older commit's programs, with this tree's packages and script. */
async function makeBefore(to: string): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'kas-before-'))
  try {
    await extractOlderVersion(folder)
    for (const path of script) await cp(join(root, path), join(folder, path), { recursive: true })
    const manifest = join(folder, 'package.json')
    const { version: _, ...rest } = JSON.parse(await readFile(manifest, 'utf8'))
    await writeFile(manifest, JSON.stringify({ ...rest, version: versionBefore }))
    const args = [to, '--architectures', architecture, '--only', names.join()]
    await promisify(execFile)(process.execPath, [join(folder, 'dev/images/images.ts'), ...args])
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
