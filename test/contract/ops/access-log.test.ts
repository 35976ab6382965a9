import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { AccessLine } from '../../../src/kas/access-log/access-line.ts'
import { eventually } from '../../support/eventually.ts'
import { Processes } from '../../support/processes.ts'
import { mainOf } from '../../support/programs.ts'

/** Output of the access log of kas as a process. */

t.setTimeout(60_000)

async function start(t: Test, output?: (folder: string) => string) {
  const processes = await Processes.start(t)
  const { folder } = processes
  const text = `
directory: { file: ./directory.yaml }
agent:
  listen: { address: "127.0.0.1:0", listen_grace_period: 0s }
  kubernetes_api: { listen: { address: "127.0.0.1:0", listen_grace_period: 0s } }
observability:
  listen: { address: "127.0.0.1:0" }
  access_log: ${JSON.stringify(output ? { output: output(folder) } : {})}
ops: { socket: ${JSON.stringify(join(folder, 'ops'))} }
cluster: { name: kas-0 }
`
  await writeFile(join(folder, 'kas.yaml'), text)
  await writeFile(join(folder, 'directory.yaml'), '{}')
  const spawn = (...args: string[]) => processes.spawn({ command: process.execPath, args: [mainOf('kas'), ...args] })
  const running = await spawn('--configuration-file=kas.yaml')
  /** Makes a call, which is refused. The first call from each address writes a line. */
  const call = async (from: string) => {
    const [line] = await running.says(/^.*"Kubernetes API endpoint is up".*$/m)
    const [host = '', port = ''] = (JSON.parse(line) as { net_address: string }).net_address.split(':')
    const { request } = await import('node:http')
    const [answer] = await once(request({ host, port, localAddress: from, path: '/api/v1/pods' }).end(), 'response')
    answer.resume()
    return answer.statusCode as number
  }
  return { running, call, folder, spawn }
}

const addresses = (text: string) =>
  text
    .trim()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => (JSON.parse(line) as AccessLine).address)

t.test('to stdout, where nothing else is said; kas log has it too', async (t) => {
  const { running, call, spawn } = await start(t)
  t.equal(await call('127.0.0.1'), 401)
  await running.says(/"event":"refused"/)
  const shown = await (await spawn('log', '--socket', 'ops', '-o', 'json')).ends()
  t.equal(shown.stdout.toString(), running.stdout)
  running.signal('SIGTERM')
  const { code, stdout } = await running.ends()
  t.equal(code, 0)
  t.strictSame(addresses(stdout.toString()), ['127.0.0.1'])
  t.match(JSON.parse(stdout.toString()), { entry: 'kas-0', verb: 'list', reason: 'CREDENTIALS_INVALID' })
})

t.test('to a file, which SIGHUP opens anew', async (t) => {
  const file = (folder: string) => join(folder, 'access.log')
  const { running, call, folder } = await start(t, file)
  const path = file(folder)
  const has = (name: string, count: number) =>
    eventually(async () => {
      const found = addresses(await readFile(name, 'utf8'))
      if (found.length !== count) throw new Error(`${found}`)
      return found
    })
  await call('127.0.0.1')
  await has(path, 1)
  await rename(path, `${path}.1`)
  await call('127.0.0.2')
  t.strictSame(await has(`${path}.1`, 2), ['127.0.0.1', '127.0.0.2'])
  t.notOk(existsSync(path))
  running.signal('SIGHUP')
  await call('127.0.0.3')
  t.strictSame(await has(path, 1), ['127.0.0.3'])
  await rm(path)
  await mkdir(path)
  running.signal('SIGHUP')
  await call('127.0.0.4')
  await running.says(/"The access log cannot be opened again"/)
  running.signal('SIGTERM')
  const { code, stdout } = await running.ends()
  t.equal(code, 0)
  t.equal(stdout.toString(), '')
})

t.test('a place that cannot be written stops the start, and is named', async (t) => {
  const { running } = await start(t, (folder) => join(folder, 'absent', 'access.log'))
  const { code, stderr } = await running.ends()
  t.equal(code, 1)
  t.match(stderr, /^kas: kas\.yaml: observability\.access_log\.output: found "[^"]*", allowed: stdout, none, .*ENOENT/m)
})

t.test('switched off', async (t) => {
  const { running, call, spawn } = await start(t, () => 'none')
  t.equal(await call('127.0.0.1'), 401)
  const shown = await (await spawn('log', '--socket', 'ops')).ends()
  t.match(shown, { code: 1, stderr: /there is no access log/ })
  running.signal('SIGTERM')
  t.match(await running.ends(), { code: 0 })
  t.equal(running.stdout, '')
})
