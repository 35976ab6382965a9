import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import {
  addressOf,
  formatHostPort,
  isHostName,
  isLoopbackHost,
  networkOf,
  parseHostPort,
  plainAddress,
  remoteOf,
} from '../../../src/lib/host-port.ts'

t.test('what is a host and a port', async (t) => {
  const taken: [text: string, host: string, port: number, written?: string][] = [
    ['10.0.0.7:8156', '10.0.0.7', 8156],
    ['[fd00::1]:8156', 'fd00::1', 8156],
    ['[FD00:0:0::1]:1', 'fd00::1', 1, '[fd00::1]:1'],
    ['kas-1:8156', 'kas-1', 8156],
    ['kas_1.Example.com.:65535', 'kas_1.Example.com.', 65_535],
  ]
  for (const [text, host, port, written] of taken) {
    t.strictSame(parseHostPort(text), { host, port }, text)
    t.equal(formatHostPort({ host, port }), written ?? text)
  }
})

t.test('what is none', async (t) => {
  const refused = ['', 'kas-1', ':8156', 'kas-1:', 'kas-1:0', 'kas-1:65536', 'kas-1:x', 'kas-1: 8156', ' kas-1:8156']
  const addresses = ['fd00::1:8156', '[kas-1]:8156', '[fd00::1]', '[fe80::1%eth0]:8156', '[10.0.0.7]:8156', '10.0.0:1']
  const names = ['256.0.0.1:1', '-a:1', 'a-:1', 'a..b:1', '.a:1', 'a/b:1', 'a@b:1', `${'a'.repeat(64)}:1`]
  for (const text of [...refused, ...addresses, ...names]) t.equal(parseHostPort(text), undefined, text)
  t.notOk(isHostName(`${'a.'.repeat(126)}ab`), 'longer than a name may be')
})

t.test('addresses as others write them', async (t) => {
  const forms = [
    ['::ffff:a2c:a', '10.44.0.10'],
    ['::ffff:10.44.0.10', '10.44.0.10'],
    ['::FFFF:0:1', '0.0.0.1'],
    ['FD00:0::1', 'fd00::1'],
    ['fe80::1%eth0', 'fe80::1%eth0'],
    ['10.0.0.7', '10.0.0.7'],
    ['kas-1.internal', 'kas-1.internal'],
    ['', ''],
  ] as const
  for (const [from, to] of forms) t.equal(plainAddress(from), to)
})

t.test('of IPv6 whoever has one address has all that begin so', async (t) => {
  const networks = [
    ['10.0.0.7', '10.0.0.7'],
    ['::ffff:10.0.0.7', '10.0.0.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
    ['2001:DB8:1:2::9', '2001:db8:1:2'],
    ['2001:db8::1:2:3:4', '2001:db8:0:0'],
    ['2001:db8::', '2001:db8:0:0'],
    ['::1', '0:0:0:0'],
    ['fe80::1%eth0', 'fe80:0:0:0'],
  ] as const
  for (const [address, network] of networks) t.equal(networkOf(address), network, address)
})

t.test('what leads nowhere but to this machine', async (t) => {
  for (const host of ['localhost', '127.0.0.1', '127.8.8.8', '::1']) t.ok(isLoopbackHost(host), host)
  for (const host of ['10.0.0.7', '::2', 'kas-1', '0.0.0.0', '127.example.com']) t.notOk(isLoopbackHost(host), host)
})

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
  const path = join(folder, 's') // short: the path of a socket has at most 108 bytes
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
