import { execFile } from 'node:child_process'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, globSync, readdirSync, readFileSync, realpathSync, statSync, symlinkSync } from 'node:fs'
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { basename, delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { Warden } from '../../../dev/control-plane/warden.ts'
import {
  foreignEnvironment,
  installPackage,
  packProject,
  withoutRegistry,
} from '../../../dev/installed/installation.ts'
import type { Programs } from '../../../dev/start/local-programs.ts'
import { memoryFolder } from '../../runner/memory-folder.ts'
import { playCluster } from './cluster.ts'
import type { Extent } from './commands.ts'
import { playGitlab } from './gitlab.ts'

/** The shipped package runs after a usual installation, with no dependency in any folder above. */

const maxPackageBytes = 3e6
const maxFiles = 300
const maxInstalledBytes = 14e6

const run = promisify(execFile)

/** The Node of another user's machine, if it is too old and needs the packaged Node. */
const foreign = foreignEnvironment()
const oldNode = (foreign.PATH ?? '')
  .split(delimiter)
  .map((folder) => join(folder, 'node'))
  .find(existsSync)
const oldVersion = oldNode === undefined ? '' : (await run(oldNode, ['--version'])).stdout
const withoutOld = /^v2[0-3]\./.test(oldVersion) ? false : 'needs a Node from 20 to 23 on the PATH'
const project = join(import.meta.dirname, '../../..')
/** installed npm packages that contain a Node */
const packagedNodes = globSync('node_modules/node-*/bin/node', { cwd: project }).map((node) => dirname(dirname(node)))

t.jobs = 2 // each test mostly waits for its replicas

const folder = realpathSync(await mkdtemp(join(memoryFolder(2), 'kas-installed-')))
const warden = new Warden({ folders: [folder] })
await warden.start()
t.teardown(() => warden.stop())
const [packed, again] = [join(folder, 'packed'), join(folder, 'again')]
const [tarball] = await Promise.all([packProject(packed), packProject(again)])

const visible = (folder: string) => readdirSync(folder).filter((name) => !name.startsWith('.'))
const digest = (file: string) => hash('sha256', readFileSync(file))

t.test('the package is small, and the same bytes when it is made again', async (t) => {
  const size = statSync(tarball).size
  t.ok(size <= maxPackageBytes, `${size} bytes`)
  const names = readdirSync(packed).sort()
  const base = basename(tarball, '.tgz')
  t.strictSame(names, ['SHA256SUMS', `${base}.cdx.json`, `${base}.intoto.json`, `${base}.tgz`])
  for (const name of names) t.equal(digest(join(packed, name)), digest(join(again, name)), name)
  const sums = readFileSync(join(packed, 'SHA256SUMS'), 'utf8').trim().split('\n').sort()
  t.strictSame(
    sums,
    names
      .slice(1)
      .map((name) => `${digest(join(packed, name))}  ${name}`)
      .sort(),
  )
  const { subject } = JSON.parse(readFileSync(join(packed, `${base}.intoto.json`), 'utf8'))
  t.match(subject, [{ name: `${base}.tgz`, digest: { sha256: digest(tarball) } }, { name: `${base}.cdx.json` }])
})

t.test('as README says, under Node 24', { buffered: true }, async (t) => {
  // a registry that never answers
  let asked = 0
  const registry = createServer(() => asked++)
  t.teardown(() => registry.close())
  await once(registry.listen(0, '127.0.0.1'), 'listening')
  const npm_config_registry = `http://127.0.0.1:${(registry.address() as AddressInfo).port}/`
  const installation = await installPackage(tarball, join(folder, 'prefix'), { npm_config_registry })
  t.equal(asked, 0, 'no registry is asked')
  const files = globSync('**', { cwd: installation.home, withFileTypes: true }).filter((one) => one.isFile())
  const bytes = files.map(({ parentPath, name }) => statSync(join(parentPath, name)).size)
  t.ok(files.length <= maxFiles, `${files.length} files`)
  t.ok(bytes.reduce((a, b) => a + b) <= maxInstalledBytes, `${bytes.reduce((a, b) => a + b)} bytes`)
  t.strictSame(visible(join(installation.home, '..')), ['kas'], 'beside it is nothing')
  await play(t, installation, 'prefix-state', 'each, and no other')
})

t.test('as it is, under an older Node', { buffered: true, skip: withoutOld }, async (t) => {
  const elsewhere = join(folder, 'elsewhere')
  await mkdir(elsewhere)
  await writeFile(join(elsewhere, 'package.json'), '{ "private": true }')
  const args = ['install', ...withoutRegistry, '--loglevel=error', tarball]
  await run('npm', args, { cwd: elsewhere, env: foreign })
  t.strictSame(visible(join(elsewhere, 'node_modules')), ['kas'])
  // as npm does, from a registry
  for (const node of packagedNodes) symlinkSync(join(project, node), join(elsewhere, node))
  const commands = join(elsewhere, 'node_modules/.bin')
  const environment = { PATH: foreign.PATH ?? '' }
  const programs = { kas: [join(commands, 'kas')], agentk: [join(commands, 'agentk')], environment }
  // a command starts as the others do, with the packaged Node; the tests above play each
  await play(t, { home: join(elsewhere, 'node_modules/kas'), programs }, 'elsewhere-state', 'few')
})

async function play(
  t: Test,
  { home, programs }: { home: string; programs: Programs },
  state: string,
  extent: Extent,
): Promise<void> {
  const stateFolder = join(folder, state)
  await mkdir(stateFolder, { mode: 0o700 })
  const { version, gitHead } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8'))
  const said = gitHead === 'unknown' ? version : `${version} (${gitHead})`
  await t.test('it forms a cluster, and its commands answer', async (t) =>
    playCluster(t, { programs, version: said, folder: stateFolder, extent }),
  )
  await t.test('it serves with a GitLab and its Gitaly', async (t) => playGitlab(t, programs.kas, programs.environment))
}
