import { execFile } from 'node:child_process'
import { hash } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { writeLayout } from '../../dev/images/oci-layout.ts'
import { type Release, releaseOf, releaseProblems } from '../../dev/release/release-checks.ts'

/** Output of `npm run release` for a correct release, and for each kind of fault. */

const run = promisify(execFile)
const gzip = (text: string) => ({ gzip: Buffer.from(text), digest: hash('sha256', text), about: text })

interface Faults {
  readonly version?: string
  readonly heading?: string
  readonly chart?: string
  readonly tag?: string
  readonly architectures?: readonly ('amd64' | 'arm64')[]
  readonly imageTag?: string
  readonly gitHead?: string
}

async function releaseWith(t: Test, faults: Faults = {}): Promise<Release> {
  const version = faults.version ?? '1.2.3'
  const folder = t.testdir()
  const [root, made] = [join(folder, 'root'), join(folder, 'made')]
  const write = async (path: string, text: string) => {
    await mkdir(join(path, '..'), { recursive: true })
    await writeFile(path, text)
  }
  const git = (...args: string[]) => run('git', ['-c', 'user.name=a', '-c', 'user.email=a@b.c', ...args], { cwd: root })
  await write(join(root, 'package.json'), JSON.stringify({ version }))
  await write(join(root, 'CHANGELOG.md'), `# Changelog\n\n## ${faults.heading ?? '1.2.3 (2027-01-31)'}\n`)
  for (const chart of ['kas', 'agentk'])
    await write(
      join(root, 'deploy/charts', chart, 'Chart.yaml'),
      `version: ${faults.chart ?? version}\nappVersion: "${version}"\n`,
    )
  await git('init', '-q')
  await git('add', '.')
  await git('commit', '-qm', 'all')
  await git('tag', faults.tag ?? `v${version}`)
  const commit = (await git('rev-parse', 'HEAD')).stdout.trim()
  const sbom = JSON.stringify({
    bomFormat: 'CycloneDX',
    metadata: { component: { name: 'kas', version } },
    components: [{ name: 'zod', version: '4.0.0' }],
  })
  await write(join(folder, 'package/package.json'), JSON.stringify({ version, gitHead: faults.gitHead ?? commit }))
  await write(join(folder, 'package/sbom.cdx.json'), sbom)
  await mkdir(made)
  await run('tar', ['-czf', join(made, `kas-${version}.tgz`), '-C', folder, 'package'])
  await write(join(made, `kas-${version}.cdx.json`), sbom)
  await write(join(made, `kas-${version}.intoto.json`), '{}')
  const names = ['tgz', 'cdx.json', 'intoto.json'].map((end) => `kas-${version}.${end}`)
  const sums = await Promise.all(names.map(async (name) => hash('sha256', await readFile(join(made, name)))))
  await write(join(made, 'SHA256SUMS'), names.map((name, i) => `${sums[i]}  ${name}\n`).join(''))
  for (const name of ['kas', 'agentk', 'agentk-gitops']) {
    const architectures = faults.architectures ?? ['amd64', 'arm64']
    const layers = architectures.map((architecture) => ({ architecture, layers: [gzip(architecture)], config: {} }))
    await writeLayout(join(made, name), `${name}:${faults.imageTag ?? version}`, layers)
  }
  return await releaseOf(root, made)
}

/** Returns only the checks with problems. */
async function wrong(release: Release): Promise<Record<string, string[]>> {
  return Object.fromEntries([...(await releaseProblems(release))].filter(([, problems]) => problems.length > 0))
}

t.test('a release that is right', async (t) => {
  const problems = await releaseProblems(await releaseWith(t))
  t.strictSame([...problems.keys()], ['version', 'changelog', 'tag', 'package', 'SBOM', 'checksums', 'images'])
  t.strictSame([...problems.values()].flat(), [])
})

const faulty: readonly [faults: Faults, says: Record<string, RegExp[]>][] = [
  [{ version: '1.2.3-rc.1', heading: '1.2.3-rc.1 (2027-01-31)' }, { version: [/is not MAJOR.MINOR.PATCH/] }],
  [{ chart: '1.2.2' }, { version: [/charts\/kas\/Chart.yaml: version is 1.2.2/, /charts\/agentk/] }],
  [{ heading: '1.2.3 (unreleased)' }, { changelog: [/its first heading is "1.2.3 \(unreleased\)"/] }],
  [{ heading: '1.2.2 (2027-01-31)' }, { changelog: [/has to be "1.2.3 \(YYYY-MM-DD\)"/] }],
  [{ heading: '1.2.3 (2027-13-31)' }, { changelog: [/2027-13-31/] }],
  [{ tag: 'v1.2.2' }, { tag: [/there is no tag v1.2.3/] }],
  [{ gitHead: 'a'.repeat(40) }, { package: [/is made of aaaa.*: make it again/] }],
  [{ architectures: ['amd64'] }, { images: [/^kas: there is none for arm64/, /^agentk: /, /^agentk-gitops: /] }],
  [{ imageTag: '1.2.2' }, { images: [/^kas: its tag is 1.2.2/, /^agentk: /, /^agentk-gitops: /] }],
]
for (const [faults, says] of faulty) {
  t.test(`${JSON.stringify(faults)} is named, and nothing else`, async (t) => {
    const found = await wrong(await releaseWith(t, faults))
    t.match(found, says)
    t.strictSame(Object.keys(found), Object.keys(says))
  })
}

t.test('files that were changed, or are not there', async (t) => {
  const release = await releaseWith(t)
  const { root, folder } = release
  await writeFile(join(folder, 'kas-1.2.3.intoto.json'), '{"x":1}')
  t.match(await wrong(release), { checksums: [/kas-1.2.3.intoto.json has another sum than SHA256SUMS says/] })
  await writeFile(join(folder, 'SHA256SUMS'), `${'0'.repeat(64)}  other\n`)
  t.match((await wrong(release)).checksums, [/does not name kas-1.2.3.tgz/, /cdx/, /intoto/, /SHA256SUMS names other/])
  await writeFile(join(folder, 'kas-1.2.3.cdx.json'), '{}')
  t.match(Object.keys(await wrong(release)), ['SBOM', 'checksums'])
  const index = JSON.parse(await readFile(join(folder, 'kas/index.json'), 'utf8'))
  await writeFile(join(folder, 'kas/blobs', index.manifests[0].digest.replace(':', '/')), '{}')
  t.match((await wrong(release)).images, [/^kas: sha256:.* has other bytes/])
  await writeFile(join(root, 'new'), '')
  t.match((await wrong(await releaseOf(root, folder))).tag, [/files differ from the commit/])
  t.match(await wrong({ ...release, folder: join(folder, 'absent') }), {
    package: [/kas-1.2.3.tgz/],
    checksums: [/no such file/],
    images: [/no such file/],
  })
})
