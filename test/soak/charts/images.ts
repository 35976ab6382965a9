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

/** by which the images of the older version are known; it calls itself as this tree does */
export const versionBefore = '0.0.9'

/** What makes images, of this tree. */
const script = ['dev/images', 'dev/package', 'dev/node-flags.ts', 'package-lock.json', 'tsconfig.json']
  // what goes with the programs
  .concat('bin', 'deploy', 'doc', 'README.md', 'LICENSE', 'CHANGELOG.md')
  // which reads rules of health as the script packs them
  .concat('src/agentk/health/custom/vendors.ts')

/** @param to - gets the folders `this` and `before`, each with the images kas and agentk of this machine's processor */
export async function makeBoth(to: string): Promise<void> {
  const places = { this: join(to, 'this'), before: join(to, 'before') }
  await mkdir(places.this)
  await makeImages({ to: places.this, names, architectures: [architecture] })
  await makeBefore(places.before)
}

/** Programs of the older commit, with the packages and the script of this one. */
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
