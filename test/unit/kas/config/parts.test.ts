import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { environmentSettings } from '../../../../src/kas/config/environment.ts'
import { parseListenAddress } from '../../../../src/kas/config/listen-address.ts'
import {
  readApiSecret,
  readPrivateApiSecret,
  readWebsocketTokenSecret,
} from '../../../../src/kas/config/secret-file.ts'

t.test('addresses are those that Go listens on', async (t) => {
  t.strictSame(parseListenAddress('tcp', '127.0.0.1:8150'), { host: '127.0.0.1', port: 8150 })
  t.strictSame(parseListenAddress('tcp', 'localhost:0'), { host: 'localhost', port: 0 })
  t.strictSame(parseListenAddress('tcp', ':8150'), { port: 8150 })
  t.strictSame(parseListenAddress('tcp4', ':8150'), { host: '0.0.0.0', port: 8150 })
  t.strictSame(parseListenAddress('tcp6', ':8150'), { host: '::', port: 8150, ipv6Only: true })
  t.strictSame(parseListenAddress('tcp', '[::1]:8150'), { host: '::1', port: 8150 })
  t.strictSame(parseListenAddress('unix', '/run/kas.sock'), { path: '/run/kas.sock' })
  for (const wrong of ['', '8150', 'a:', 'a:b', 'a:65536', '::1:8150', 'http://a:1', 'a b:1']) {
    t.equal(parseListenAddress('tcp', wrong), undefined, JSON.stringify(wrong))
  }
  t.equal(parseListenAddress('unix', ''), undefined)
})

// wire: secret.api, secret.private, secret.websocket
t.test('secret files', async (t) => {
  const folder = t.testdir({})
  mkdirSync(folder, { recursive: true })
  const file = (bytes: number, form = (text: string) => text) => {
    const path = join(folder, `secret-${bytes}-${form('x').length}`)
    writeFileSync(path, form(Buffer.alloc(bytes, 7).toString('base64')))
    return path
  }
  t.strictSame(Buffer.from(await readApiSecret(file(32), 'k')), Buffer.alloc(32, 7))
  t.equal(
    (
      await readApiSecret(
        file(32, (text) => `${text.slice(0, 9)}\n ${text.slice(9)}\r\n`),
        'k',
      )
    ).length,
    32,
  )
  await t.rejects(readApiSecret(file(31), 'gitlab.authentication_secret_file'), {
    message: /secret-31-1: gitlab\.authentication_secret_file: found 31 bytes, allowed: exactly 32 bytes in base64$/,
  })
  const plain = join(folder, 'plain')
  writeFileSync(plain, 'not-base64!')
  const message = await readApiSecret(plain, 'k').then(
    () => 'taken',
    (error: Error) => error.message,
  )
  t.match(message, 'found no base64')
  t.notMatch(message, 'not-base64!')
  await t.rejects(readApiSecret(join(folder, 'absent'), 'k'), { message: /absent: k: cannot be read/ })

  t.match(await readPrivateApiSecret(file(40)), { short: false })
  t.match(await readPrivateApiSecret(file(16)), { short: true })
  t.equal((await readWebsocketTokenSecret(file(64)))?.length, 64)
  t.equal((await readWebsocketTokenSecret(file(72)))?.length, 72)
  await t.rejects(readWebsocketTokenSecret(file(73)), { message: /found 73 bytes, allowed: 64 to 72 bytes/ })
  t.equal(await readWebsocketTokenSecret(join(folder, 'absent')), undefined)
})

// wire: secret.api, secret.websocket
t.test('secret files as packages and openssl write them', async (t) => {
  const folder = t.testdir({
    omnibus: Buffer.alloc(32, 1).toString('base64'),
    chart: Buffer.from('a'.repeat(32)).toString('base64'),
    openssl: `${'B'.repeat(64)}\n${'B'.repeat(32)}\n`, // 72 bytes; openssl breaks the line after 64 characters
    unpadded: Buffer.alloc(32, 1).toString('base64').replace(/=+$/, ''),
    url: Buffer.alloc(32, 0xfb).toString('base64url'),
    raw: Buffer.alloc(32, 0xfb).toString('latin1'),
    empty: '\n',
  })
  const api = (name: string) => readApiSecret(join(folder, name), 'k')
  t.equal((await api('omnibus')).length, 32)
  t.equal(Buffer.from(await api('chart')).toString(), 'a'.repeat(32))
  t.equal((await readWebsocketTokenSecret(join(folder, 'openssl')))?.length, 72)
  for (const name of ['unpadded', 'url', 'raw']) await t.rejects(api(name), { message: /found no base64/ }, name)
  await t.rejects(api('empty'), { message: /found 0 bytes, allowed: exactly 32/ })
  await t.rejects(readPrivateApiSecret(join(folder, 'empty')), { message: /found 0 bytes, allowed: at least 1 bytes/ })
})

t.test('environment', async (t) => {
  t.strictSame(environmentSettings({ KAS_CLUSTER_NAME: '', OTHER: 'x' }), {
    cluster: { texts: {} },
    trustedProxies: [],
    ownPrivateApi: {},
    problems: [],
    warnings: [],
  })
  const all = environmentSettings({
    KAS_CLUSTER_NAME: 'a',
    POD_NAME: 'b',
    POD_NAMESPACE: 'ns',
    KAS_CLUSTER_SERVICE: 'kas-private',
    KAS_CLUSTER_STATIC: '10.0.0.1:8156, 10.0.0.2:8156',
  })
  t.strictSame(all.cluster, {
    name: 'a',
    discovery: { kubernetes: { service: 'kas-private', namespace: 'ns' }, static: ['10.0.0.1:8156', '10.0.0.2:8156'] },
    texts: {},
  })
  const { cluster } = environmentSettings({ KAS_CLUSTER_SERVICE: 'other/kas', POD_NAMESPACE: 'ns' })
  t.strictSame(cluster.discovery?.kubernetes, { service: 'kas', namespace: 'other' })
  const texts = {
    KAS_CLUSTER_AGENT_ADDRESS: 'wss://kas-0.example.com',
    KAS_CLUSTER_ADVERTISED_VERSION: '17.5.1',
    KAS_CLUSTER_PREVIOUS_AUTHENTICATION_SECRET_FILE: '/old',
  }
  t.strictSame(environmentSettings(texts).cluster.texts, {
    previous_authentication_secret_file: '/old',
    agent_address: 'wss://kas-0.example.com',
    advertised_version: '17.5.1',
  })
  const wrong = {
    POD_NAME: 'a b',
    KAS_CLUSTER_LISTEN: 'x',
    KAS_CLUSTER_AGENT_ADDRESS: 'https://kas',
    KAS_CLUSTER_ADVERTISED_VERSION: 'new',
  }
  const { problems } = environmentSettings(wrong)
  t.strictSame(problems.map((problem) => problem.split(':')[0]).sort(), Object.keys(wrong).sort())
})
