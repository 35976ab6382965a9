import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { announced, listenOptions } from '../../../src/kas/servers/listening.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { startKasApp } from '../../support/kas-app.ts'

t.test('a private API on a Unix socket: the replica is alone, and serves', async (t) => {
  const folder = t.testdir({ secret: Buffer.alloc(32, 7).toString('base64'), 'directory.yaml': '{}' })
  const { lines, portOf } = await startKasApp(
    t,
    `
directory: { file: ${join(folder, 'directory.yaml')} }
agent: { listen: { address: "127.0.0.1:0", listen_grace_period: 0s } }
observability: { listen: { address: "127.0.0.1:0" } }
private_api:
  listen:
    network: unix
    address: ${join(folder, 'private-api.socket')}
    authentication_secret_file: ${join(folder, 'secret')}
`,
  )
  const up = lines.filter(({ msg }) => String(msg).endsWith('endpoint is up'))
  t.strictSame(
    up.map(({ msg }) => String(msg).split(' ')[0]),
    ['Observability', 'Agentk'],
  )
  t.equal((await fetch(`http://127.0.0.1:${portOf('Observability')}/readiness`)).status, 200)
})

// wire: log.net_address
t.test('a socket that a killed process left makes room; one that answers does not', async (t) => {
  t.chdir(t.testdir()) // a short path, because the path of a socket is bounded
  const path = 'observability.socket'
  const program = `require('node:net').createServer().listen('${path}', () => process.kill(process.pid, 'SIGKILL'))`
  t.equal(spawnSync(process.execPath, ['-e', program], { env: {} }).signal, 'SIGKILL')
  const { log, lines } = capturedLog()
  const listen = { network: 'unix', address: path } as const
  const start = async () => {
    const server = createServer()
    t.teardown(() => server.close())
    const service = {
      start: async () => void (await once(server.listen(listenOptions(listen)), 'listening')),
      stop: async () => undefined,
      get address() {
        return server.address()
      },
    }
    await announced(log, service, {
      name: 'Observability',
      file: 'kas.yaml',
      key: 'observability.listen.address',
      listen,
    }).start()
  }
  await start()
  t.match(lines, [{ net_network: 'unix', net_address: path, msg: 'Observability endpoint is up' }])
  await t.rejects(start(), {
    code: 'SETTINGS_INVALID',
    message: /^kas\.yaml: observability\.listen\.address: another kas listens on observability\.socket: end it/,
  })
})
