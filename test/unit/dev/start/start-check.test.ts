import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join, resolve } from 'node:path'
import t from 'tap'
import { readStartArguments, usedOffsets } from '../../../../dev/setup/start-arguments.mjs'
import { choosePorts } from '../../../../dev/start/ports.ts'

const project = resolve(import.meta.dirname, '../../../..')
const check = join(project, 'dev/setup/start-check.mjs')
const checked = (args: readonly string[], env = process.env) =>
  spawnSync(process.execPath, [check, ...args], { encoding: 'utf8', env })

t.test('an option that is not known is answered with the nearest one', async (t) => {
  for (const [wrong, near] of [
    ['--portbase', '--port-base'],
    ['--port-bse', '--port-base'],
    ['--kube-config', '--kubeconfig'],
    ['--hepl', '--help'],
  ] as const)
    t.throws(() => readStartArguments([wrong]), { message: `Unknown option '${wrong}'. Did you mean ${near}?` })
  t.throws(() => readStartArguments(['--x']), /Unknown option '--x'/)
  t.strictSame(readStartArguments(['--port-base', '9000']), { kubeconfig: undefined, portBase: 9000 })
  t.equal(readStartArguments(['--help']), undefined)
})

t.test('what would end npm start is said before anything is installed', async (t) => {
  const { scripts } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8'))
  for (const name of ['start', 'demo']) t.match(scripts[name], /start-check\.mjs[^&]*&& node dev\/setup\/ensure\.mjs/)
  t.match(checked(['--portbase', '9000']), { status: 1, stderr: /Did you mean --port-base\?/ })
  t.match(checked(['--kubeconfig', '/nowhere']), { status: 1, stderr: '/nowhere cannot be read' })
  const withoutGit = checked([], { PATH: t.testdir() })
  t.match(withoutGit, { status: 1, stderr: 'kas: There is no git on the PATH\n' })
  const server = createServer()
  t.teardown(() => server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as { port: number }
  t.match(checked(['--port-base', String(port - 4)]), { status: 1, stderr: `Port ${port} is taken. Choose others` })
})

t.test('the ports that are checked are those of npm start', async (t) => {
  const { ports, base } = await choosePorts(undefined)
  const { replicas, ...shared } = ports
  const used = [shared, ...replicas].flatMap((each) => Object.values<number>(each))
  t.strictSame(
    used.map((port) => port - base).sort((one, other) => one - other),
    usedOffsets,
  )
})
