import { spawnSync } from 'node:child_process'
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { foreignEnvironment } from '../../dev/installed/installation.ts'
import { nodeEnvironment, nodeFlags } from '../../dev/node-flags.ts'

/** What is packed, without packing it: test/e2e/installed does. */

const root = join(import.meta.dirname, '..', '..')
const env = foreignEnvironment()

function run(cwd: string, command: string, args: string[]): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(command, args, { cwd, env, encoding: 'utf8', timeout: 150_000 })
}

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
    const dir = await mkdtemp(join(tmpdir(), 'kas-launch-'))
    t.teardown(() => rm(dir, { recursive: true, force: true }))
    cpSync(join(root, 'bin'), join(dir, 'bin'), { recursive: true })
    writeFileSync(join(dir, 'package.json'), '{ "type": "module" }')
    const { status, stderr } = run(dir, oldNode, [join(dir, 'bin', 'kas.mjs'), '--version'])
    t.equal(status, 1)
    t.match(stderr, /kas: needs Node 24 or later; this is v2[0-3]\./)
  },
)
