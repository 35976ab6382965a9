import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, globSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { isBuiltin } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Metafile } from 'esbuild'
import t, { type Test } from 'tap'
import { foreignEnvironment } from '../../dev/installed/installation.ts'
import { nodeEnvironment, nodeFlags } from '../../dev/node-flags.ts'
import { bundledPackages, idOf } from '../../dev/package/bundled-packages.ts'
import { namedIn, noticesOf } from '../../dev/package/notices.ts'
import { componentOf, sbomOf } from '../../dev/package/sbom.ts'
import { statementOf } from '../../dev/package/statement.ts'
import { vendorRules } from '../../src/agentk/health/custom/vendors.ts'
import { sbomProblems } from '../support/cyclonedx/sbom-problems.ts'
import { stagedPackage } from '../support/staged-package.ts'

/** Content of the package, without npm. test/e2e/installed packs and installs it. */

const root = join(import.meta.dirname, '..', '..')
const env = foreignEnvironment()
const maxFiles = 300
/** optional packages: ws and debug use them if they are installed */
const tried = ['bufferutil', 'supports-color', 'utf-8-validate']

function run(cwd: string, command: string, args: string[]): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(command, args, { cwd, env, encoding: 'utf8', timeout: 150_000 })
}

async function emptyFolder(t: Test): Promise<string> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'kas-package-test-')))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

const sorted = (names: Iterable<string>) => [...names].sort()

const { folder, metafiles: made, commit } = await stagedPackage()
const metafiles = Object.values(made)
const text = (name: string) => readFileSync(join(folder, name), 'utf8')
const manifestOf = (where: string) => JSON.parse(readFileSync(join(where, 'package.json'), 'utf8'))
const tree = manifestOf(root)

/** `name@version` of each package that contributes bytes to an output, by esbuild and the packages' manifests */
const carried = [
  ...new Set(
    metafiles
      .flatMap(({ outputs }) => Object.values(outputs).flatMap(({ inputs }) => Object.entries(inputs)))
      .filter(([path, { bytesInOutput }]) => bytesInOutput > 0 && path.includes('node_modules/'))
      .map(([path]) => path.replace(/^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\/.*$/, '$1'))
      .map((path) => idOf(manifestOf(join(root, path)))),
  ),
].sort()

t.test('nothing has to be installed with it but a Node, if one wants to', async (t) => {
  const { dependencies, optionalDependencies, bundleDependencies, scripts, bin, gitHead, version } = manifestOf(folder)
  t.strictSame([dependencies, bundleDependencies, scripts], [undefined, undefined, undefined])
  t.strictSame(optionalDependencies, tree.optionalDependencies)
  t.ok(Object.keys(optionalDependencies).every((name) => /^node-/.test(name)))
  t.strictSame([bin, version, gitHead], [tree.bin, tree.version, commit])
  const elsewhere = metafiles
    .flatMap(({ outputs }) => Object.values(outputs).flatMap(({ imports }) => imports))
    .filter(({ external, path }) => external && !isBuiltin(path))
  t.strictSame(sorted(new Set(elsewhere.map(({ path }) => path))), tried)
})

t.test('it has what it should, and each program is in its own folder', async (t) => {
  const files = globSync('**', { cwd: folder }).filter((path) => statSync(join(folder, path)).isFile())
  t.ok(files.length <= maxFiles, `${files.length} files`)
  const own = ['README.md', 'LICENSE', 'CHANGELOG.md', 'THIRD-PARTY-NOTICES.txt', 'sbom.cdx.json', 'package.json']
  t.strictSame(
    [...new Set(files.map((path) => path.split('/')[0]))].sort(),
    [...own, 'bin', 'deploy', 'dist', 'doc'].sort(),
  )
  t.strictSame(
    files.filter((path) => /\.ts$|node_modules|^deploy\/charts/.test(path)),
    [],
  )
  for (const name of ['kas', 'agentk']) {
    const alone = await emptyFolder(t)
    cpSync(join(folder, 'dist', name), join(alone, 'dist', name), { recursive: true })
    cpSync(join(folder, 'package.json'), join(alone, 'package.json'))
    const { stdout, stderr } = run(alone, process.execPath, [join(alone, 'dist', name, 'main.js'), '--version'])
    t.equal(stdout, `${name} ${tree.version}${commit === 'unknown' ? '' : ` (${commit})`}\n`, stderr)
  }
})

t.test("vendors' rules of health are one file, and the same rules", async (t) => {
  const packed = join(folder, 'dist/agentk/vendors')
  t.strictSame(readdirSync(packed), ['rules.yaml'])
  const rules = await vendorRules(packed)
  t.ok(rules.length > 200)
  t.strictSame(rules, await vendorRules())
})

t.test('the notices name the packages of which it has code, each with a text', async (t) => {
  t.ok(carried.length > 100)
  t.strictSame(namedIn(text('THIRD-PARTY-NOTICES.txt')).sort(), carried)
  for (const part of text('THIRD-PARTY-NOTICES.txt')
    .split(/^={80}\n/m)
    .slice(1)) {
    const [names = '', ...texts] = part.split('\n\n')
    t.ok(texts.join('').length > 300, names)
    t.match(texts.join('\n\n'), /permi(ssion|tted)|licen[cs]e/i, names)
  }
})

t.test('its list is one of CycloneDX, and names the same', async (t) => {
  const sbom = JSON.parse(text('sbom.cdx.json'))
  t.strictSame(sbomProblems(sbom), [])
  t.strictSame(sbom.components.map(idOf).sort(), carried)
  for (const { name, purl, licenses, hashes } of sbom.components) {
    t.match(purl, /^pkg:npm\/(%40[^/@]+\/)?[^/@]+@[^@]+$/, name)
    t.ok(licenses.length === 1 && hashes.length === 1, name)
  }
  const known = new Set([sbom.metadata.component.purl, ...sbom.components.map(({ purl }: { purl: string }) => purl)])
  t.strictSame(sorted(sbom.dependencies.map(({ ref }: { ref: string }) => ref)), sorted(known))
  const reached = new Set<string>()
  const reach = (purl: string) => {
    if (reached.has(purl)) return
    reached.add(purl)
    for (const next of sbom.dependencies.find(({ ref }: { ref: string }) => ref === purl)?.dependsOn ?? []) reach(next)
  }
  reach(sbom.metadata.component.purl)
  t.strictSame(sorted(reached), sorted(known), 'each is there for a reason')
  t.ok(sbomProblems({ ...sbom, components: [{ name: 'left-pad' }] }).length > 0)
  t.ok(sbomProblems({ ...sbom, licence: 'MIT' }).length > 0)
})

t.test('a dependency that was added by hand stops the build until the lock file and a licence are there', async (t) => {
  const left = 'node_modules/left-pad'
  const metafile = { outputs: { a: { inputs: { [`${left}/index.js`]: { bytesInOutput: 9 } } } } } as unknown as Metafile
  const at = (manifest: object, packages: object, licence = {}) =>
    t.testdir({
      'package-lock.json': JSON.stringify({ packages }),
      node_modules: { 'left-pad': { 'package.json': JSON.stringify({ name: 'left-pad', ...manifest }), ...licence } },
    })
  const locked = { [left]: { version: '1.3.0', integrity: `sha512-${Buffer.alloc(64).toString('base64')}` } }
  const refused = (folder: string) => () => noticesOf(folder, bundledPackages(folder, [metafile]))
  t.throws(refused(at({ license: 'WTFPL' }, {})), /package-lock\.json does not lock node_modules\/left-pad/)
  t.throws(refused(at({}, locked)), /left-pad\/package\.json names no licence/)
  t.throws(refused(at({ license: 'WTFPL' }, locked)), /left-pad 1\.3\.0 \(WTFPL\) has no licence text/)
  const pointing = { 'LICENSE.md': 'see https://example.com' }
  t.throws(refused(at({ license: 'WTFPL' }, locked, pointing)), /left-pad 1\.3\.0 \(WTFPL\) has no licence text/)
  const development = { [left]: { ...locked[left], dev: true } }
  t.throws(refused(at({ license: 'WTFPL' }, development)), /left-pad is a dependency for development alone/)
  const complete = at({ license: 'WTFPL' }, locked, { 'LICENSE.md': 'do what you want. '.repeat(50) })
  const packages = bundledPackages(complete, [metafile])
  t.strictSame(namedIn(noticesOf(complete, packages)), ['left-pad@1.3.0'])
  t.match(noticesOf(complete, packages), /do what you want/)
  const subject = { type: 'application', name: 'kas', version: '1.0.0', purl: 'pkg:npm/kas@1.0.0' } as const
  const sbom = sbomOf({ subject, commit, components: packages.map(componentOf) })
  t.strictSame(sbomProblems(JSON.parse(sbom)), [])
  t.equal(sbom, sbomOf({ subject, commit, components: packages.map(componentOf) }), 'nothing in it is random')
  const licences = (license: string) => noticesOf(complete, [{ ...packages[0], license, folder: '.' } as never])
  t.match(licences('Apache-2.0 OR MIT'), /Apache License\s+Version 2\.0/, 'a common text is kept')
  t.throws(() => licences('Apache-2.0 AND MIT'), /has no licence text/)
})

t.test('the statement names outputs, commit and lock file', async (t) => {
  const outputs = new Map([['kas-1.0.0.tgz', 'aa']])
  const made = { outputs, purl: 'pkg:npm/kas@1.0.0', commit: 'cc', lockFile: 'bb', script: 'x.ts' }
  t.match(JSON.parse(statementOf(made)), {
    _type: 'https://in-toto.io/Statement/v1',
    subject: [{ name: 'kas-1.0.0.tgz', digest: { sha256: 'aa' } }],
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: {
      buildDefinition: {
        resolvedDependencies: [
          { name: 'source', digest: { gitCommit: 'cc' } },
          { name: 'package-lock.json', digest: { sha256: 'bb' } },
        ],
      },
    },
  })
})

const isClone = existsSync(join(root, '.git'))

t.test('made where it was made before it is of the same commit', { skip: !isClone && 'needs a clone' }, async (t) => {
  const left = ['kas-1.2.3.tgz', 'kas-1.2.3.cdx.json', 'kas-1.2.3.intoto.json', 'SHA256SUMS']
  const ignored = run(root, 'git', ['check-ignore', '--no-index', ...left])
  t.strictSame(ignored.stdout.trim().split('\n'), left, 'what it leaves is no change of the tree')
  t.equal(run(root, 'git', ['check-ignore', '--no-index', 'deploy/new.json']).stdout, '')
})

t.test('the commands give Node the flags that the project measures with', async (t) => {
  const environment = Object.entries(nodeEnvironment).map((entry) => entry.join('='))
  for (const program of ['kas', 'agentk']) {
    const [line] = readFileSync(join(root, 'bin', `${program}.mjs`), 'utf8').split('\n')
    t.equal(line, `#!/usr/bin/env -S ${environment} node ${nodeFlags.join(' ')}`)
  }
})

const oldNode = run(root, 'sh', ['-c', 'command -v node']).stdout.trim()
const isOld = /^v2[0-3]\./.test(run(root, oldNode, ['--version']).stdout ?? '')

t.test(
  'a command under an old Node without a packaged one says what is needed',
  { skip: isOld ? false : 'needs a Node older than 24 on the PATH' },
  async (t) => {
    const dir = await emptyFolder(t)
    cpSync(join(root, 'bin'), join(dir, 'bin'), { recursive: true })
    writeFileSync(join(dir, 'package.json'), '{ "type": "module" }')
    mkdirSync(join(dir, 'dist', 'kas'), { recursive: true })
    writeFileSync(join(dir, 'dist', 'kas', 'main.js'), '')
    const { status, stderr } = run(dir, oldNode, [join(dir, 'bin', 'kas.mjs'), '--version'])
    t.equal(status, 1)
    t.match(stderr, /kas: needs Node 24 or later; this is v2[0-3]\./)
  },
)
