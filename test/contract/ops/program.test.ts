import { once } from 'node:events'
import { readdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { readVersion } from '../../../src/lib/version.ts'
import { Processes } from '../../support/processes.ts'
import { mainOf } from '../../support/programs.ts'
import { patience } from '../../support/slowness.ts'

/** kas as a process: its command line, exit codes and signals. */

t.setTimeout(60_000)
const anyPort = '{ address: "127.0.0.1:0" }'

async function kas(t: Test, args: string[], files: Record<string, string> = {}) {
  const processes = await Processes.start(t)
  for (const [name, text] of Object.entries(files)) await writeFile(join(processes.folder, name), text)
  const environment = { TMPDIR: processes.folder }
  const running = await processes.spawn({ command: process.execPath, args: [mainOf('kas'), ...args], environment })
  return { running, folder: processes.folder }
}

const configuration = (agents = '127.0.0.1:0') => `
directory: { file: ./directory.yaml }
agent:
  listen: { address: "${agents}", listen_grace_period: 0s }
  kubernetes_api: { listen: { address: "127.0.0.1:0", listen_grace_period: 0s } }
observability: { listen: ${anyPort} }
redis: { server: { address: "redis:6379" } }
sever: {}
`

/** Starts kas with a valid configuration. */
async function serving(t: Test, text = configuration()) {
  const started = await kas(t, ['--configuration-file=kas.yaml'], { 'kas.yaml': text, 'directory.yaml': '{}' })
  const address = async (name: string) => {
    const [line] = await started.running.says(new RegExp(`^.*"${name} endpoint is up".*$`, 'm'))
    return (JSON.parse(line) as { net_address: string }).net_address
  }
  return { ...started, address }
}

// wire: configuration.version
t.test('--version and --help', async (t) => {
  const version = await (await kas(t, ['--version'])).running.ends()
  t.match(version, { code: 0, stderr: '' })
  t.equal(version.stdout.toString(), `kas ${readVersion().version}\n`)
  const help = await (await kas(t, ['--help'])).running.ends()
  t.equal(help.code, 0)
  t.match(help.stdout.toString(), /^Usage: kas --configuration-file=<file>/)
})

t.test('a wrong command line is told in one line, with exit code 2', async (t) => {
  const unknown = await (await kas(t, ['--configfile=x'])).running.ends()
  t.equal(unknown.code, 2)
  t.match(unknown.stderr, /^kas: Unknown option '--configfile'/)
  t.notMatch(unknown.stderr, /\n {4}at /)
  const none = await (await kas(t, [])).running.ends()
  t.match(none, { code: 2, stderr: /^kas: --configuration-file is missing\n\nUsage/ })
  const near = await (await kas(t, ['agnt', 'create', 'x'])).running.ends()
  t.match(near, { code: 2, stderr: 'kas: there is no command agnt, did you mean kas agent?\n' })
  const far = await (await kas(t, ['serve'])).running.ends()
  t.match(far, { code: 2, stderr: 'kas: there is no command serve' })
  const events = await (await kas(t, ['events'])).running.ends()
  t.match(events, { code: 2, stderr: 'kas: there is no command events, did you mean kas get events?\n' })
  const logs = await (await kas(t, ['logs', 'web'])).running.ends()
  t.match(logs, { code: 2, stderr: 'kas: there is no command logs: use kubectl logs, with a kubeconfig of kas\n' })
  const form = await (await kas(t, ['--configuration-file=x', '--log-format=xml'])).running.ends()
  t.match(form, { code: 2, stderr: 'kas: --log-format xml: allowed is json or text\n' })
  const verb = await (await kas(t, ['agent', 'craete', 'x'])).running.ends()
  t.match(verb, { code: 2, stderr: /^kas agent craete: did you mean kas agent create\?\nusage: kas agent create/ })
})

// wire: configuration.flag, configuration.network
t.test('a bad configuration is reported without a stack, with exit code 1', async (t) => {
  const text = 'agent: { listen: { network: udp, address: x } }\n'
  const bad = await (await kas(t, ['--configuration-file', 'kas.yaml'], { 'kas.yaml': text })).running.ends()
  t.equal(bad.code, 1)
  t.strictSame(bad.stderr.trim().split('\n'), [
    'kas: kas.yaml: line 1: agent.listen.network: found "udp", allowed: one of tcp, tcp4, tcp6, unix',
  ])
  const absent = await (await kas(t, ['--configuration-file=absent.yaml'])).running.ends()
  t.match(absent, { code: 1, stderr: /^kas: absent\.yaml: cannot be read: ENOENT[^\n]*\n$/ })
})

t.test('a misspelt key is named beside what is missing without it', async (t) => {
  const { running } = await kas(t, ['--configuration-file=kas.yaml'], { 'kas.yaml': 'directry: { file: ./d.yaml }\n' })
  const { code, stderr } = await running.ends()
  t.equal(code, 1)
  t.match(stderr, /^kas: kas\.yaml: gitlab\.address: found nothing/)
  t.match(stderr, /^kas: kas\.yaml: directry: this key is not known, did you mean directory\?$/m)
})

t.test('the log is for people with --log-format text, which goes before the configuration', async (t) => {
  const other = createServer()
  other.listen(0, '127.0.0.1')
  t.teardown(() => other.close())
  await once(other, 'listening')
  const { port } = other.address() as AddressInfo
  const logging = 'observability: { logging: { format: text },'
  const text = configuration(`127.0.0.1:${port}`).replace('observability: {', logging)
  const files = { 'kas.yaml': text, 'directory.yaml': '{}' }
  const said = async (...args: string[]) => {
    const { running } = await kas(t, ['--configuration-file=kas.yaml', ...args], files)
    return (await running.ends()).stderr
  }
  t.match(await said(), /^\S+ WARN {2}Configuration key is not known {2}key=sever/m)
  t.match(await said('--log-format=json'), /^\{"level":"warn".*"Configuration key is not known"/m)
})

t.test('a port that is taken is named', async (t) => {
  const other = createServer()
  other.listen(0, '127.0.0.1')
  t.teardown(() => other.close())
  await once(other, 'listening')
  const { port } = other.address() as AddressInfo
  const files = { 'kas.yaml': configuration(`127.0.0.1:${port}`), 'directory.yaml': '{}' }
  const { running, folder } = await kas(t, ['--configuration-file=kas.yaml'], files)
  const { code, stderr } = await running.ends()
  t.equal(code, 1)
  t.match(
    stderr.trim().split('\n').at(-1),
    new RegExp(`^kas: kas\\.yaml: agent\\.listen\\.address: port ${port} is taken: end who listens there`),
  )
  t.strictSame((await readdir(folder)).toSorted(), ['directory.yaml', 'kas.yaml'], 'nothing is left behind')
})

t.test('certificates that cannot be used are named', async (t) => {
  const text = configuration().replace('listen_grace_period: 0s }', 'certificate_file: c.pem, key_file: k.pem }')
  const { running } = await kas(t, ['--configuration-file=kas.yaml'], { 'kas.yaml': text, 'directory.yaml': '{}' })
  const { code, stderr } = await running.ends()
  t.equal(code, 1)
  t.match(stderr, /^kas: c\.pem: cannot be used with key k\.pem: ENOENT/m)
})

// wire: log.endpoint, configuration.unknown, configuration.redis.server, configuration.flag, health.redis
t.test('it says what it does not use, serves, and ends in order', async (t) => {
  const { running, folder, address } = await serving(t)
  const ops = await address('Observability')
  await address('Agentk API')
  await address('Kubernetes API')
  await running.says(/"unused":\["redis: there is no Redis/)
  await running.says(/"key":"sever"[^\n]*"Configuration key is not known"/)
  const readiness = await fetch(`http://${ops}/readiness`, { headers: { connection: 'close' } })
  t.match({ status: readiness.status, text: await readiness.text() }, { status: 200, text: '' })
  const metrics = await (await fetch(`http://${ops}/metrics`, { headers: { connection: 'close' } })).text()
  for (const name of ['gitlab_build_info', 'connected_agents_count', 'grpc_server_started_total'])
    t.match(metrics, name)
  running.signal('SIGTERM')
  const { code, stderr } = await running.ends()
  t.equal(code, 0)
  t.match(stderr, /"Stopped"\}\n$/)
  t.strictSame((await readdir(folder)).toSorted(), ['directory.yaml', 'kas.yaml'], 'nothing is left behind')
})

t.test('the graces of its ports run at the same time', async (t) => {
  const { running, address } = await serving(t, configuration().replaceAll('period: 0s', 'period: 3s'))
  await address('Kubernetes API')
  running.signal('SIGTERM')
  const { code, stderr } = await running.ends()
  t.equal(code, 0)
  const at = (message: RegExp) => {
    const line = stderr.split('\n').find((one) => message.test(one)) ?? '{}'
    return Date.parse((JSON.parse(line) as { time: string }).time)
  }
  const tookMs = at(/"Stopped"/) - at(/"Stopping/)
  t.ok(tookMs >= 3000 && tookMs < patience(5500), `it took ${tookMs} ms`)
})

t.test('while it leaves it is not ready, and a second signal ends it at once', async (t) => {
  const patient = configuration().replaceAll('listen_grace_period: 0s', 'listen_grace_period: 1h')
  const { running, folder, address } = await serving(t, patient)
  const ops = await address('Observability')
  const kubernetes = await address('Kubernetes API')
  running.signal('SIGTERM')
  await running.says(/"Stopping, a second signal ends at once"/)
  const readiness = await fetch(`http://${ops}/readiness`, { headers: { connection: 'close' } })
  t.match({ status: readiness.status, text: await readiness.text() }, { status: 500, text: 'shutdown: shutting down' })
  t.equal((await fetch(`http://${kubernetes}/api`)).status, 401, 'it still serves')
  running.signal('SIGINT')
  t.not((await running.ends()).code, 0)
  t.strictSame((await readdir(folder)).toSorted(), ['directory.yaml', 'kas.yaml'], 'nothing is left behind')
})
