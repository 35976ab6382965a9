import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { addressOf, remoteOf } from '../../../src/lib/remote-of.ts'

t.test('the far end of a socket, while it is there', async (t) => {
  const server = createServer().listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const dial = async () => {
    const client = connect(port, '127.0.0.1')
    t.teardown(() => client.destroy())
    const [[accepted]] = (await Promise.all([once(server, 'connection'), once(client, 'connect')])) as [
      [Socket],
      unknown,
    ]
    return { client, accepted }
  }
  const { client, accepted } = await dial()
  t.equal(remoteOf(accepted), `127.0.0.1:${client.localPort}`)
  t.equal(remoteOf(client), `127.0.0.1:${port}`)
  const { accepted: left } = await dial()
  left.destroy()
  t.equal(remoteOf(left), undefined)
})

t.test('a Unix socket has none', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'kas-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 's') // short: a socket's path has 108 bytes at most
  const server = createServer().listen(path)
  t.teardown(() => server.close())
  await once(server, 'listening')
  const client = connect(path)
  t.teardown(() => client.destroy())
  const [accepted] = (await once(server, 'connection')) as [Socket]
  t.equal(remoteOf(accepted), undefined)
})

t.test('the address alone', async (t) => {
  t.equal(addressOf('10.0.0.7:443'), '10.0.0.7')
  t.equal(addressOf('::ffff:10.0.0.7:443'), '10.0.0.7')
  t.equal(addressOf('2001:db8::1:443'), '2001:db8::1')
  t.equal(addressOf(''), '')
})
