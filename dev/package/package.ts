import { execFile } from 'node:child_process'
import { hash } from 'node:crypto'
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { parseArgs, promisify } from 'node:util'
import type { Metafile } from 'esbuild'
import { bundle, type ProgramName } from './bundle.ts'
import { type BundledPackage, bundledPackages, idOf } from './bundled-packages.ts'
import { commitOf } from './commit.ts'
import { noticesOf } from './notices.ts'
import { componentOf, purlOf, sbomOf } from './sbom.ts'
import { statementOf } from './statement.ts'

/**
 * `npm run package [-- FOLDER]`: makes kas-VERSION.tgz for `npm install`, with the list of its components, a statement
 * of its sources, and their SHA256SUMS. Two runs with one commit give the same bytes.
 */

const root = resolve(import.meta.dirname, '../..')
const run = promisify(execFile)
const maxOutputBytes = 16 * 1024 * 1024

/** files and folders of the tree that are copied unchanged */
const carried = ['bin', 'deploy', 'doc', 'README.md', 'LICENSE', 'CHANGELOG.md']
/** parts of them that are only for work on the project, or that users get elsewhere */
const left = ['doc/decisions', 'doc/internals']
  // the wire, and what tests alone read
  .concat(
    ['captured.md', 'first-words.md', 'gitlab-contract.md', 'traps.md', 'tunnel-protocol.md', 'wire.md']
      .concat('limits.md', 'output.md', 'output.schema.json')
      .map((name) => `doc/reference/${name}`),
  )
  // helm reads a chart from a folder, an archive or a registry, never from npm's package
  .concat('deploy/charts')
  .map((name) => join(root, name))
/** fields of package.json that are copied */
const fields = ['name', 'version', 'description', 'license', 'author', 'type', 'engines', 'bin', 'optionalDependencies']

interface Manifest {
  readonly name: string
  readonly version: string
  readonly license: string
  readonly dependencies: Readonly<Record<string, string>>
}

export interface Staged {
  readonly folder: string
  /** esbuild's metafile of each program */
  readonly metafiles: Readonly<Record<ProgramName, Metafile>>
  readonly sbom: string
  readonly version: string
  readonly commit: string
}

/**
 * Makes the content of the package in a folder: the programs with their dependencies (doc/decisions/0014), notices, the
 * list of components. Its package.json has no dependencies and names the commit.
 *
 * @param folder - an empty one
 * @throws Error that names what is missing
 */
export async function stage(folder: string): Promise<Staged> {
  const manifest = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as Manifest & Record<string, unknown>
  const commit = await commitOf(root)
  const metafiles = await bundle(root, join(folder, 'dist'))
  const packages = bundledPackages(root, Object.values(metafiles))
  const filter = (path: string) => !left.includes(path)
  for (const name of carried) await cp(join(root, name), join(folder, name), { recursive: true, filter })
  const { name, version, license } = manifest
  const subject = { type: 'application', name, version, license, purl: purlOf(idOf(manifest)) } as const
  const components = packages.map(componentOf)
  const sbom = sbomOf({ subject: { ...subject, dependsOn: directOf(packages, manifest) }, commit, components })
  const published = { ...Object.fromEntries(fields.map((field) => [field, manifest[field]])), gitHead: commit }
  await writeFile(join(folder, 'package.json'), `${JSON.stringify(published, null, 2)}\n`)
  await writeFile(join(folder, 'THIRD-PARTY-NOTICES.txt'), noticesOf(root, packages))
  await writeFile(join(folder, 'sbom.cdx.json'), sbom)
  return { folder, metafiles, sbom, version, commit }
}

/** Returns package URLs of the dependencies in package.json. */
function directOf(packages: readonly BundledPackage[], { dependencies }: Manifest): string[] {
  const direct = packages.filter(({ name, folder }) => name in dependencies && folder === `node_modules/${name}`)
  return direct.map((one) => purlOf(idOf(one)))
}

async function makePackage(to: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'kas-staged-'))
  try {
    const { sbom, commit } = await stage(folder)
    await mkdir(to, { recursive: true })
    const tarball = await pack(folder, to)
    const manifest = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as Manifest
    const base = tarball.replace(/\.tgz$/, '')
    await writeFile(join(to, `${base}.cdx.json`), sbom)
    const sums = new Map<string, string>()
    const digest = async (file: string) => hash('sha256', await readFile(file))
    const add = async (name: string) => sums.set(name, await digest(join(to, name)))
    for (const name of [tarball, `${base}.cdx.json`]) await add(name)
    const lockFile = await digest(join(root, 'package-lock.json'))
    const made = { outputs: sums, purl: purlOf(idOf(manifest)), commit, lockFile, script: 'dev/package/package.ts' }
    await writeFile(join(to, `${base}.intoto.json`), statementOf(made))
    await add(`${base}.intoto.json`)
    await writeFile(join(to, 'SHA256SUMS'), [...sums].map(([name, sum]) => `${sum}  ${name}\n`).join(''))
    return join(to, tarball)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Runs `npm pack` with the Node that runs this, and without the settings of an npm that runs this. */
async function pack(folder: string, to: string): Promise<string> {
  const own = Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name))
  const env = { ...Object.fromEntries(own), PATH: `${dirname(process.execPath)}:${process.env.PATH}` }
  const args = ['pack', '--ignore-scripts', '--loglevel=error', '--pack-destination', to]
  const { stdout } = await run('npm', args, { cwd: folder, env, maxBuffer: maxOutputBytes })
  return stdout.trim().split('\n').at(-1) ?? ''
}

const usage = 'npm run package [-- FOLDER]'

/** @throws Error that names an unknown option, or says that there are too many folders */
export function folderOf(args: readonly string[]): string | 'help' {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: { help: { type: 'boolean', short: 'h' } },
    allowPositionals: true,
  })
  if (values.help) return 'help'
  if (positionals.length > 1) throw new Error(`expected one folder, got ${positionals.length}: ${usage}`)
  return resolve(positionals[0] ?? '.')
}

if (import.meta.main) {
  try {
    const folder = folderOf(process.argv.slice(2))
    process.stdout.write(`${folder === 'help' ? usage : await makePackage(folder)}\n`)
  } catch (error) {
    process.stderr.write(`kas: no package: ${error instanceof Error ? error.message : String(error)}\n`)
    process.exitCode = 1
  }
}
