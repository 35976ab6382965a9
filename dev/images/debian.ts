import { execFile } from 'node:child_process'
import { hash } from 'node:crypto'
import { existsSync, globSync } from 'node:fs'
import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Apt, type RunApt } from './apt.ts'
import type { Architecture } from './oci-layout.ts'

const run = promisify(execFile)
/** Debian's mirrors change every few hours. */
const listsMaxAgeMs = 3_600_000

/** An unpacked package of Debian: none of its scripts runs, so it may be for another processor. */
export interface DebianPackage {
  readonly name: string
  readonly version: string
  /** its control file */
  readonly control: string
  /** SHA-256 of the .deb */
  readonly digest: string
  /** folder of its files */
  readonly folder: string
}

/**
 * Returns those packages and all their dependencies, in the current versions of this machine's Debian mirror.
 *
 * @param cache - a permanent folder for lists, packages and unpacked files
 * @throws AptError with apt's message
 */
export async function debianPackages(
  names: readonly string[],
  architecture: Architecture,
  cache: string,
): Promise<DebianPackage[]> {
  const own = join(cache, 'debian', architecture)
  const chosenFile = join(own, `chosen-${hash('sha256', names.join()).slice(0, 12)}.json`)
  const known = await chosenBy(chosenFile, await freshLists(own))
  return known ?? new Apt(own, architecture).alone(names, (apt) => chosenAnew(names, { apt, own, chosenFile }))
}

/** Chooses the packages again; another process may have done part of it meanwhile. */
async function chosenAnew(
  names: readonly string[],
  { apt, own, chosenFile }: { apt: RunApt; own: string; chosenFile: string },
): Promise<DebianPackage[]> {
  const fresh = await freshLists(own)
  const known = await chosenBy(chosenFile, fresh)
  if (known) return known
  if (fresh === undefined) {
    await apt('update')
    await writeFile(stampOf(own), '')
  }
  const { mtimeMs: listsMs } = await stat(stampOf(own))
  const said = await apt('install', '--yes', ...names, '--download-only', '--verbose-versions')
  const [, chosen = ''] = /^The following NEW packages .*\n((?: .*\n)*)/m.exec(said) ?? []
  if (said !== '' && chosen === '') throw new Error(`apt did not say what it chose: ${said}`)
  const files = [...chosen.matchAll(/^ +(\S+) \((\S+)\)$/gm)].map(([, name, version]) =>
    join(own, 'archives', `${name}_${version?.replace(':', '%3a')}_*.deb`),
  )
  const found = files.flatMap((pattern) => globSync(pattern))
  if (found.length !== files.length) throw new Error(`apt did not fetch all of ${files.join(', ')}`)
  const packages = await Promise.all(found.map((file) => unpacked(file, join(own, 'unpacked'))))
  await writeFile(`${chosenFile}.part`, JSON.stringify({ listsMs, packages } satisfies Chosen))
  await rename(`${chosenFile}.part`, chosenFile)
  return packages
}

const stampOf = (own: string) => join(own, 'updated')

/** Returns the time of the lists' download, if they are fresh enough; else undefined. */
async function freshLists(own: string): Promise<number | undefined> {
  const updated = await stat(stampOf(own)).catch(() => undefined)
  return updated && Date.now() - updated.mtimeMs <= listsMaxAgeMs ? updated.mtimeMs : undefined
}

/** apt's choice, with the time of its lists: the same lists would give the same choice, but take seconds. */
interface Chosen {
  readonly listsMs: number
  readonly packages: readonly DebianPackage[]
}

async function chosenBy(file: string, listsMs: number | undefined): Promise<DebianPackage[] | undefined> {
  if (listsMs === undefined || !existsSync(file)) return undefined
  const chosen = JSON.parse(await readFile(file, 'utf8')) as Chosen
  const isThere = chosen.packages.every(({ folder }) => existsSync(folder))
  return chosen.listsMs === listsMs && isThere ? [...chosen.packages] : undefined
}

async function unpacked(file: string, into: string): Promise<DebianPackage> {
  const digest = hash('sha256', await readFile(file))
  const folder = join(into, digest)
  if (!existsSync(folder)) {
    const partial = `${folder}.${process.pid}`
    await mkdir(partial, { recursive: true })
    await run('dpkg-deb', ['--extract', file, partial])
    await rename(partial, folder).catch(() => rm(partial, { recursive: true })) // another was first
  }
  const { stdout: control } = await run('dpkg-deb', ['--field', file])
  const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(control)?.[1] ?? ''
  return { name: field('Package'), version: field('Version'), control, digest, folder }
}
