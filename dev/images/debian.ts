import { execFile } from 'node:child_process'
import { hash } from 'node:crypto'
import { existsSync, globSync } from 'node:fs'
import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Architecture } from './oci-layout.ts'

const run = promisify(execFile)
const maxOutputBytes = 16 * 1024 * 1024
/** of apt, whose lists are some 50 MB */
const timeoutMs = 300_000
/** Debian's mirrors change every few hours. */
const listsMaxAgeMs = 3_600_000
const sources = ['/etc/apt/sources.list.d/debian.sources', '/etc/apt/sources.list']

/** A package of Debian, unpacked: none of its scripts runs, so it may be of another processor. */
export interface DebianPackage {
  readonly name: string
  readonly version: string
  /** its control file */
  readonly control: string
  /** SHA-256 of the .deb */
  readonly digest: string
  /** where its files lie */
  readonly folder: string
}

/**
 * Those packages and all that they depend on, in the versions that this machine's Debian mirror has now.
 *
 * @param cache - a folder that is kept: lists, packages, what is unpacked
 * @throws Error with the words of apt
 */
export async function debianPackages(
  names: readonly string[],
  architecture: Architecture,
  cache: string,
): Promise<DebianPackage[]> {
  const own = join(cache, 'debian', architecture)
  const archives = join(own, 'archives')
  const stamp = join(own, 'updated')
  const updated = await stat(stamp).catch(() => undefined)
  const isFresh = updated !== undefined && Date.now() - updated.mtimeMs <= listsMaxAgeMs
  const chosenFile = join(own, `chosen-${hash('sha256', names.join()).slice(0, 12)}.json`)
  const chosen = isFresh && (await chosenBy(chosenFile, updated.mtimeMs))
  if (chosen) return chosen
  for (const folder of ['archives/partial', 'lists/partial']) await mkdir(join(own, folder), { recursive: true })
  await writeFile(join(own, 'status'), '')
  const [list] = sources.filter(existsSync)
  if (list === undefined) throw new Error(`no Debian: neither ${sources.join(' nor ')} is there`)
  const settings = {
    'APT::Architecture': architecture,
    'APT::Architectures::': architecture,
    'APT::Install-Recommends': 'false',
    'APT::Sandbox::User': 'root',
    'APT::Update::Error-Mode': 'any',
    'Acquire::Languages': 'none',
    'Dir::State': own,
    'Dir::State::lists': join(own, 'lists'),
    'Dir::State::status': join(own, 'status'),
    'Dir::Cache': own,
    'Dir::Cache::archives': archives,
    'Dir::Etc::SourceList': list,
    'Dir::Etc::SourceParts': '/dev/null',
    'Binary::apt-get::APT::Keep-Downloaded-Packages': 'true',
    'Debug::NoLocking': 'true',
  }
  const options = Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`])
  const apt = async (...words: string[]) =>
    (await run('apt-get', [...options, '--quiet', ...words], { maxBuffer: maxOutputBytes, timeout: timeoutMs })).stdout
  if (!isFresh) {
    await apt('update')
    await writeFile(stamp, '')
  }
  const { mtimeMs: listsMs } = await stat(stamp)
  const install = ['install', '--yes', ...names]
  await apt(...install, '--download-only')
  const files = [...(await apt(...install, '--simulate')).matchAll(/^Inst (\S+) \((\S+)/gm)].map(([, name, version]) =>
    join(archives, `${name}_${version?.replace(':', '%3a')}_*.deb`),
  )
  const found = files.flatMap((pattern) => globSync(pattern))
  if (found.length !== files.length) throw new Error(`apt did not fetch all of ${files.join(', ')}`)
  const packages = await Promise.all(found.map((file) => unpacked(file, join(own, 'unpacked'))))
  await writeFile(`${chosenFile}.${process.pid}`, JSON.stringify({ listsMs, packages } satisfies Chosen))
  await rename(`${chosenFile}.${process.pid}`, chosenFile)
  return packages
}

/** What apt has chosen, by lists of one age: of the same lists it would choose the same, and take seconds for it. */
interface Chosen {
  readonly listsMs: number
  readonly packages: readonly DebianPackage[]
}

async function chosenBy(file: string, listsMs: number): Promise<DebianPackage[] | undefined> {
  if (!existsSync(file)) return undefined
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
