import { execFile } from 'node:child_process'
import { hash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import * as z from 'zod'
import { commitOf } from '../package/commit.ts'

const run = promisify(execFile)
const maxOutputBytes = 64 * 1024 * 1024
const images = ['kas', 'agentk', 'agentk-gitops']
const architectures = ['amd64', 'arm64']
const charts = ['kas', 'agentk']

export interface Release {
  /** folder of the sources */
  readonly root: string
  /** output folder of `npm run package` and `npm run images` */
  readonly folder: string
  /** version of package.json */
  readonly version: string
  /** the checked-out commit */
  readonly commit: string
}

export interface ReleaseCheck {
  readonly name: string
  /** Returns the problems, a sentence each. @throws Error if a file cannot be read, which is a problem too */
  readonly problems: (release: Release) => Promise<string[]>
}

/** @throws Error if package.json cannot be read */
export async function releaseOf(root: string, folder: string): Promise<Release> {
  const { version } = z.object({ version: z.string() }).parse(await jsonOf(join(root, 'package.json')))
  return { root, folder, version, commit: await commitOf(root) }
}

/** Returns the problems by name of their check; none: the release is ready. */
export async function releaseProblems(release: Release): Promise<Map<string, string[]>> {
  const found = await Promise.all(
    releaseChecks.map(async ({ name, problems }) => {
      const said = await problems(release).catch((error: Error) => [error.message])
      return [name, said] as const
    }),
  )
  return new Map(found)
}

export const releaseChecks: readonly ReleaseCheck[] = [
  { name: 'version', problems: versionProblems },
  { name: 'changelog', problems: changelogProblems },
  { name: 'tag', problems: tagProblems },
  { name: 'package', problems: packageProblems },
  { name: 'SBOM', problems: sbomProblems },
  { name: 'checksums', problems: checksumProblems },
  { name: 'images', problems: imagesProblems },
]

async function versionProblems({ root, version }: Release): Promise<string[]> {
  const own = /^\d+\.\d+\.\d+$/.test(version) ? [] : [`package.json: version ${version} is not MAJOR.MINOR.PATCH`]
  const ofCharts = charts.map(async (chart) => {
    const file = join('deploy/charts', chart, 'Chart.yaml')
    const text = await readFile(join(root, file), 'utf8')
    return ['version', 'appVersion'].flatMap((key) => {
      const found = new RegExp(`^${key}: *"?([^"\\s]*)"?`, 'm').exec(text)?.[1]
      return found === version ? [] : [`${file}: ${key} is ${found ?? 'absent'}, and ${version} in package.json`]
    })
  })
  return [...own, ...(await Promise.all(ofCharts)).flat()]
}

async function changelogProblems({ root, version }: Release): Promise<string[]> {
  const [, heading = ''] = /^## (.*)$/m.exec(await readFile(join(root, 'CHANGELOG.md'), 'utf8')) ?? []
  const [, of, date = ''] = /^(\S+) \((\d{4}-\d{2}-\d{2})\)$/.exec(heading) ?? []
  if (of === version && !Number.isNaN(Date.parse(date))) return []
  return [`CHANGELOG.md: its first heading is "${heading}", and has to be "${version} (YYYY-MM-DD)"`]
}

async function tagProblems({ root, version, commit }: Release): Promise<string[]> {
  if (commit.endsWith('-dirty')) return ['files differ from the commit that lies checked out: git status names them']
  const tag = `v${version}`
  const tagged = await run('git', ['rev-parse', '--verify', '--quiet', `refs/tags/${tag}^{commit}`], {
    cwd: root,
  }).catch(() => undefined)
  if (!tagged) return [`there is no tag ${tag}: git tag --sign ${tag}`]
  const of = tagged.stdout.trim()
  return of === commit ? [] : [`tag ${tag} is at ${of.slice(0, 8)}, and ${commit.slice(0, 8)} lies checked out`]
}

const base = ({ version }: Release) => `kas-${version}`

async function packageProblems(release: Release): Promise<string[]> {
  const { version, gitHead } = z
    .object({ version: z.string(), gitHead: z.string() })
    .parse(JSON.parse(await fileOfPackage(release, 'package.json')))
  return [
    ...(version === release.version ? [] : [`${base(release)}.tgz: its version is ${version}`]),
    ...(gitHead === release.commit ? [] : [`${base(release)}.tgz is made of ${gitHead}: make it again`]),
  ]
}

const sbomSchema = z.object({
  bomFormat: z.literal('CycloneDX'),
  metadata: z.object({ component: z.object({ name: z.string(), version: z.string() }) }),
  components: z.array(z.object({ name: z.string(), version: z.string() })).min(1),
})

async function sbomProblems(release: Release): Promise<string[]> {
  const file = `${base(release)}.cdx.json`
  const text = await readFile(join(release.folder, file), 'utf8')
  const { component } = sbomSchema.parse(JSON.parse(text)).metadata
  return [
    ...(component.version === release.version ? [] : [`${file}: it is of version ${component.version}`]),
    ...((await fileOfPackage(release, 'sbom.cdx.json')) === text ? [] : [`${file}: the package has another one`]),
  ]
}

async function checksumProblems(release: Release): Promise<string[]> {
  const expected = ['.tgz', '.cdx.json', '.intoto.json'].map((end) => `${base(release)}${end}`)
  const text = await readFile(join(release.folder, 'SHA256SUMS'), 'utf8')
  const sums = new Map(
    text.split('\n').flatMap((line) => {
      const [, sum = '', name = ''] = /^([0-9a-f]{64}) {2}(.+)$/.exec(line) ?? []
      return name === '' ? [] : [[name, sum] as const]
    }),
  )
  const missing = expected.filter((name) => !sums.has(name)).map((name) => `SHA256SUMS does not name ${name}`)
  const other = [...sums.keys()].filter((name) => !expected.includes(name)).map((name) => `SHA256SUMS names ${name}`)
  const wrong = expected.map(async (name) => {
    const is = hash('sha256', await readFile(join(release.folder, name)))
    return !sums.has(name) || sums.get(name) === is ? [] : [`${name} has another sum than SHA256SUMS says`]
  })
  return [...missing, ...other, ...(await Promise.all(wrong)).flat()]
}

async function imagesProblems(release: Release): Promise<string[]> {
  return (await Promise.all(images.map((name) => imageProblems(join(release.folder, name), name, release)))).flat()
}

const descriptor = z.object({
  digest: z.string().regex(/^sha256:[0-9a-f]{64}$/),
  size: z.number(),
  platform: z.object({ architecture: z.string() }).optional(),
  annotations: z.record(z.string(), z.string()).optional(),
})
const indexSchema = z.object({ manifests: z.array(descriptor) })
const manifestSchema = z.object({ config: descriptor, layers: z.array(descriptor) })

/** Checks an OCI layout from its index to each layer. */
async function imageProblems(folder: string, name: string, { version }: Release): Promise<string[]> {
  const blob = async ({ digest }: { digest: string }) => {
    const bytes = await readFile(join(folder, 'blobs', digest.replace(':', '/')))
    if (`sha256:${hash('sha256', bytes)}` !== digest) throw new Error(`${name}: ${digest} has other bytes`)
    return bytes
  }
  const json = async (of: { digest: string }) => JSON.parse((await blob(of)).toString('utf8')) as unknown
  const [entry, ...others] = indexSchema.parse(await jsonOf(join(folder, 'index.json'))).manifests
  if (!entry || others.length > 0) return [`${name}: index.json names ${others.length + (entry ? 1 : 0)} images`]
  const tag = entry.annotations?.['org.opencontainers.image.ref.name']
  const { manifests } = indexSchema.parse(await json(entry))
  const reached = new Set([entry.digest])
  for (const manifest of manifests) {
    const { config, layers } = manifestSchema.parse(await json(manifest))
    for (const each of [config, ...layers]) await blob(each)
    for (const each of [manifest, config, ...layers]) reached.add(each.digest)
  }
  const made = manifests.map(({ platform }) => platform?.architecture)
  const left = (await readdir(join(folder, 'blobs/sha256'))).filter((one) => !reached.has(`sha256:${one}`))
  return [
    ...(tag === version ? [] : [`${name}: its tag is ${tag ?? 'absent'}`]),
    ...architectures.filter((one) => !made.includes(one)).map((one) => `${name}: there is none for ${one}`),
    ...(left.length === 0 ? [] : [`${name}: ${left.length} blobs belong to no image: make it in an empty folder`]),
  ]
}

/** Reads a file from the package. */
async function fileOfPackage(release: Release, name: string): Promise<string> {
  const args = ['-xzOf', join(release.folder, `${base(release)}.tgz`), `package/${name}`]
  return (await run('tar', args, { maxBuffer: maxOutputBytes })).stdout
}

async function jsonOf(file: string): Promise<unknown> {
  return JSON.parse(await readFile(file, 'utf8'))
}
