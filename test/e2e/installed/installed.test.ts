import { execFile } from 'node:child_process'
import { existsSync, globSync, readFileSync, realpathSync } from 'node:fs'
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { Warden } from '../../../dev/control-plane/warden.ts'
import {
  foreignEnvironment,
  type Installation,
  installAsImage,
  packProject,
} from '../../../dev/installed/installation.ts'
import { playCluster } from './cluster.ts'
import { memoryFolder } from './memory-folder.ts'

/** What is shipped runs: the package is packed once, and installed as people do. */

const project = join(import.meta.dirname, '../../..')
const { version } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8')) as { version: string }
const run = promisify(execFile)

/** The Node of a stranger, if it is one that needs the packaged Node. */
const foreign = foreignEnvironment()
const oldNode = (foreign.PATH ?? '')
  .split(delimiter)
  .map((folder) => join(folder, 'node'))
  .find(existsSync)
const oldVersion = oldNode === undefined ? '' : (await run(oldNode, ['--version'])).stdout
const withoutOld = /^v2[0-3]\./.test(oldVersion) ? false : 'needs a Node from 20 to 23 on the PATH'

t.jobs = 2 // either mostly waits: npm for files, the stack for its replicas

const folder = realpathSync(await mkdtemp(join(memoryFolder(), 'kas-installed-')))
const warden = new Warden({ folders: [folder] })
await warden.start()
t.teardown(() => warden.stop())
const packed = join(folder, 'packed')
await mkdir(packed)
const tarball = await packProject(packed)

t.test('as the image does, under Node 24', { buffered: true }, async (t) => {
  const installation = await installAsImage(packed, join(folder, 'image'))
  await play(t, installation, 'image-state')
  t.notOk(globSync('**/node-*/bin/node', { cwd: installation.home }).length, 'no packaged Node')
})

t.test('as it is, under an older Node', { buffered: true, skip: withoutOld }, async (t) => {
  const elsewhere = join(folder, 'elsewhere')
  await mkdir(elsewhere)
  await writeFile(join(elsewhere, 'package.json'), '{ "private": true }')
  // what is not in the package is the packaged Node: a registry that hangs is asked again, npm itself waits 5 minutes
  const patience = ['--fetch-timeout=20000', '--fetch-retries=3', '--fetch-retry-mintimeout=1000']
  const args = ['install', '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error', ...patience, tarball]
  await run('npm', args, { cwd: elsewhere, env: foreign })
  const commands = join(elsewhere, 'node_modules/.bin')
  const environment = { PATH: foreign.PATH ?? '' }
  const programs = { kas: [join(commands, 'kas')], agentk: [join(commands, 'agentk')], environment }
  await play(t, { home: join(elsewhere, 'node_modules/kas'), programs }, 'elsewhere-state')
})

async function play(t: Test, { home, programs }: Installation, state: string): Promise<void> {
  await t.test('it holds what it should', async (t) => holdsWhatItShould(t, home))
  const stateFolder = join(folder, state)
  await mkdir(stateFolder, { mode: 0o700 })
  await t.test('it forms a cluster, and each command answers', async (t) =>
    playCluster(t, { programs, version, folder: stateFolder }),
  )
}

interface Locked {
  version: string
  dev?: boolean
  inBundle?: boolean
}
const lockOf = (file: string) =>
  Object.entries((JSON.parse(readFileSync(file, 'utf8')) as { packages: Record<string, Locked> }).packages)
    .filter(([path]) => path !== '')
    .map(([path, { version, dev, inBundle }]) => ({ is: `${path} ${version}`, dev: dev === true, inBundle }))
const names = (locked: ReturnType<typeof lockOf>) => locked.map(({ is }) => is).sort()

async function holdsWhatItShould(t: Test, home: string): Promise<void> {
  const tested = lockOf(join(project, 'package-lock.json')).filter(({ dev }) => !dev)
  t.strictSame(names(lockOf(join(home, 'npm-shrinkwrap.json'))), names(tested), 'the shrinkwrap is that of the tests')
  const manifests = globSync('node_modules/**/package.json', { cwd: home })
  const installed = manifests
    .filter((path) => /(^|\/)node_modules\/(@[^/]+\/)?[^/]+\/package\.json$/.test(path))
    .map((path) => {
      const { version } = JSON.parse(readFileSync(join(home, path), 'utf8')) as { version: string }
      return `${path.slice(0, -'/package.json'.length)} ${version}`
    })
  t.strictSame(installed.sort(), names(tested.filter(({ inBundle }) => inBundle)), 'each dependency as it was tested')
  t.equal(existsSync(join(home, 'src')), false)
  const own = globSync('{bin,dist,doc,deploy}/**', { cwd: home })
  t.strictSame(
    own.filter((path) => path.endsWith('.ts')),
    [],
    'no TypeScript',
  )
  for (const file of ['README.md', 'LICENSE', 'CHANGELOG.md', 'dist/kas/main.js'])
    t.ok(existsSync(join(home, file)), file)
}
