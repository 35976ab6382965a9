import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, readdirSync, readFileSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { nodeFlags } from '../../dev/node-flags.ts'

const root = join(import.meta.dirname, '..', '..')
const notSource = new Set(['node_modules', '.git', '.tap', '.run', 'dist'])
const version = '0.1.0'

/** The environment of a stranger: no PATH entry of this project. */
const env = {
  ...process.env,
  PATH: (process.env.PATH ?? '')
    .split(delimiter)
    .filter((entry) => !entry.includes('node_modules'))
    .join(delimiter),
}

function run(cwd: string, command: string, args: string[]): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(command, args, { cwd, env, encoding: 'utf8', timeout: 150_000 })
}

/** Packs a copy of the project, so that no other test sees its dist come and go. */
function pack(t: Test, dir: string): string {
  const copy = join(dir, 'copy')
  cpSync(root, copy, {
    recursive: true,
    filter: (path) => dirname(path) !== root || !notSource.has(path.slice(root.length + 1)),
  })
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
  const packed = run(copy, 'npm', ['pack', '--loglevel=error', '--pack-destination', dir])
  t.equal(packed.status, 0, packed.stderr)
  return join(dir, packed.stdout.trim().split('\n').at(-1) ?? '')
}

t.test('the package installs elsewhere and its commands answer', async (t) => {
  const dir = realpathSync(await mkdtemp(join(tmpdir(), 'kas-pack-')))
  t.teardown(() => rm(dir, { recursive: true, force: true }))
  const tarball = pack(t, dir)
  const elsewhere = join(dir, 'elsewhere')
  cpSync(t.testdir({ 'package.json': '{ "private": true }' }), elsewhere, { recursive: true })
  const flags = ['--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
  const installed = run(elsewhere, 'npm', ['install', ...flags, tarball])
  t.equal(installed.status, 0, installed.stderr)

  const home = join(elsewhere, 'node_modules', 'kas')
  t.equal(existsSync(join(home, 'src')), false)
  const files = readdirSync(home, { recursive: true, encoding: 'utf8' })
  t.strictSame(
    files.filter((path) => path.endsWith('.ts')),
    [],
    'no TypeScript in the package',
  )
  for (const file of ['README.md', 'LICENSE', 'CHANGELOG.md', 'dist/kas/main.js']) t.ok(files.includes(file), file)

  for (const program of ['kas', 'agentk']) {
    const command = join(elsewhere, 'node_modules', '.bin', program)
    const told = run(elsewhere, command, ['--version'])
    t.equal(told.status, 0, told.stderr)
    t.match(told.stdout, `${program} ${version}`)
    const help = run(elsewhere, command, ['--help'])
    t.equal(help.status, 0, help.stderr)
    t.match(help.stdout, new RegExp(`usage[\\s\\S]*${program}`, 'i'))
  }
})

t.test('the commands give Node the flags that the project measures with', async (t) => {
  for (const program of ['kas', 'agentk']) {
    const [line] = readFileSync(join(root, 'bin', `${program}.mjs`), 'utf8').split('\n')
    t.equal(line, `#!/usr/bin/env -S node ${nodeFlags.join(' ')}`)
  }
})

const oldNode = run(root, 'sh', ['-c', 'command -v node']).stdout.trim()
const isOld = /^v2[0-3]\./.test(run(root, oldNode, ['--version']).stdout ?? '')

t.test(
  'a command under an old Node without a packaged one says what is needed',
  { skip: isOld ? false : 'needs a Node older than 24 on the PATH' },
  async (t) => {
    const dir = await mkdtemp(join(tmpdir(), 'kas-launch-'))
    t.teardown(() => rm(dir, { recursive: true, force: true }))
    cpSync(join(root, 'bin'), join(dir, 'bin'), { recursive: true })
    writeFileSync(join(dir, 'package.json'), '{ "type": "module" }')
    const { status, stderr } = run(dir, oldNode, [join(dir, 'bin', 'kas.mjs'), '--version'])
    t.equal(status, 1)
    t.match(stderr, /kas: needs Node 24 or later; this is v2[0-3]\./)
  },
)
