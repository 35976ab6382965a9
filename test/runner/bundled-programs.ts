import { hash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { bundle } from '../../dev/package/bundle.ts'

/** ms; every run has ended after this time */
const keptMs = 86_400_000

/**
 * Bundles both programs as they are shipped, for tests that start them: a few files instead of 1,400 modules. The
 * folder is named by its content, so that compiled code is found again.
 *
 * @param make - writes the bundles into a folder
 * @returns folder below node_modules, where the programs find packages that they do not contain
 */
export async function bundledPrograms(
  root: string,
  make: (root: string, to: string) => Promise<unknown> = bundle,
): Promise<string> {
  const cache = join(root, 'node_modules', '.cache', 'programs')
  await mkdir(cache, { recursive: true })
  const part = await mkdtemp(join(cache, 'part-'))
  await make(root, join(part, 'dist'))
  await copyFile(join(root, 'package.json'), join(part, 'package.json'))
  const folder = join(cache, await digestOf(part))
  try {
    await rename(part, folder)
  } catch (error) {
    await rm(part, { recursive: true })
    if (!existsSync(folder)) throw error // otherwise another run has made it before
  }
  const now = new Date()
  await utimes(folder, now, now)
  await removeOld(cache, now.getTime() - keptMs)
  return folder
}

async function digestOf(folder: string): Promise<string> {
  const files = (await readdir(folder, { recursive: true, withFileTypes: true })).filter((one) => one.isFile())
  const paths = files.map(({ parentPath, name }) => join(parentPath, name)).sort()
  const digests = await Promise.all(
    paths.map(async (path) => `${path.slice(folder.length)} ${hash('sha256', await readFile(path))}\n`),
  )
  return hash('sha256', digests.join('')).slice(0, 12)
}

async function removeOld(cache: string, beforeMs: number): Promise<void> {
  for (const name of await readdir(cache)) {
    const path = join(cache, name)
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Infinity })) // another run has removed it
    if (mtimeMs < beforeMs) await rm(path, { recursive: true, force: true })
  }
}
