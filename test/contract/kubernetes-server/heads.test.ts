import t from 'tap'
import { defaultKubernetesLimits } from '../../../src/kas/servers/kubernetes/http/kubernetes-limits.ts'
import { maxHeaderLines } from '../../../src/kas/servers/kubernetes/request/request-head.ts'
import type { HttpRequestHeader } from '../../../src/proto/http/http-message.ts'
import { eventually } from '../../support/eventually.ts'
import { clusterForward, data, head, trailer } from './fake-cluster.ts'
import { RawClient } from './raw-client.ts'
import { directory, good, startServer } from './start-server.ts'

/** Bounds of the length of a head, and of the memory for all heads of strangers. */

type Tap = typeof t | import('tap').Test
async function setUp(t: Tap, ...[options, certificate, components]: SetUp) {
  const seen: HttpRequestHeader[] = []
  const forward = clusterForward(async function* ({ header, body }) {
    seen.push(header)
    await body()
    yield head(200, [['Content-Length', ['2']]])
    yield data('ok')
    yield trailer
  })
  const started = await startServer(forward, options, certificate, components)
  t.teardown(() => started.server.stop(AbortSignal.abort()))
  const open = async () => {
    const client = await RawClient.open(started.port)
    t.teardown(() => client.close())
    return client
  }
  return { ...started, open, seen }
}
type SetUp = [
  options?: Parameters<typeof startServer>[1],
  certificate?: Parameters<typeof startServer>[2],
  components?: Parameters<typeof startServer>[3],
]

const mib = 2 ** 20
const get = `GET /k8s-proxy/ HTTP/1.1\r\nHost: kas\r\n${good}\r\n`
const status = (code: number) => new RegExp(`^HTTP/1\\.1 ${code} .*"kind":"Status".*"code":${code}}\n$`, 's')

// wire: limit.head
t.test('a head has up to 1 MiB, by its line or by its headers, again and again on one connection', async (t) => {
  const { open, seen, count } = await setUp(t)
  const client = await open()
  const heads = [
    `${get}X-A: ${'a'.repeat(mib - 200)}\r\n\r\n`,
    `${get.replace('proxy/', `proxy/?q=${'a'.repeat(mib - 200)}`)}\r\n`,
    `${get.replace('proxy/', `proxy/${'a'.repeat(mib - 200)}`)}\r\n`,
    `${get}${'Impersonate-Group: g\r\n'.repeat(40_000)}\r\n`,
    `${get}${Array.from({ length: 20_000 }, (_, i) => `X-${i}: ${i}\r\n`).join('')}\r\n`,
    `${get.replace('proxy/', `proxy/?${'command=x&'.repeat(100_000)}`)}\r\n`,
    `${get}\r\n`,
  ]
  for (const bytes of heads) {
    client.text = ''
    t.match(await client.write(bytes).until(/ok$|\n$/), /^HTTP\/1\.1 200 /, bytes.slice(0, 60))
  }
  t.equal(seen[3]?.header.find(([name]) => name === 'Impersonate-Group')?.[1].length, 40_000)
  t.equal(seen[4]?.header.find(([name]) => name === 'X-19999')?.[1][0], '19999')
  t.equal(seen[5]?.rawQuery, 'command=x&'.repeat(100_000))
  const { maxHeadBytes } = defaultKubernetesLimits
  const large = await open()
  t.match(await large.write(`${get}X-A: ${'a'.repeat(maxHeadBytes)}\r\n\r\n`).toEnd(), status(431))
  const endless = await open()
  t.match(await endless.write(`GET /${'a'.repeat(3 * mib)}`).until(/\n$/), status(431), 'while it is sent')
  const lines = await open()
  t.match(await lines.write(`${get}${'a:\r\n'.repeat(maxHeaderLines)}\r\n`).until(/\n$/), status(431))
  t.equal(await count('HEAD_TOO_LARGE'), 3)
})

// wire: error.malformed
t.test('each refusal before a caller is known is a Status', async (t) => {
  const { open, count } = await setUp(t, { limits: { headTimeoutMs: 200 } })
  for (const [bytes, code] of [
    ['GET /k8s-proxy/ HTTP/1.1\r\nHost: kas\r\n', 408],
    ['G', 408],
    ['nonsense\r\n\r\n', 400],
    [`${get}X A: b\r\n\r\n`, 400],
    ['FOO /k8s-proxy/ HTTP/1.1\r\nHost: kas\r\n\r\n', 405],
    ['get /k8s-proxy/ HTTP/1.1\r\nHost: kas\r\n\r\n', 405],
    [`x-list.2 /k8s-proxy/ HTTP/1.1\r\nHost: kas\r\n${good}\r\n\r\n`, 405],
    ['GET\u00e4 /k8s-proxy/ HTTP/1.1\r\nHost: kas\r\n\r\n', 400],
    [`POST /k8s-proxy/ HTTP/1.1\r\nHost: kas\r\n${good}\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`, 400],
    [
      `POST /k8s-proxy/ HTTP/1.1\r\nHost: kas\r\n${good}\r\nTransfer-Encoding: chunked\r\n\r\n1;${'a'.repeat(20_000)}`,
      431,
    ],
  ] as const) {
    const text = await (await open()).write(bytes).toEnd()
    t.match(text, status(code), bytes.slice(0, 40))
    t.match(text, /\r\nContent-Type: application\/json\r\n(?:.+\r\n)*Connection: close\r\n/)
  }
  const unused = await open()
  t.equal(await unused.toEnd(), '', 'a connection that was opened ahead is closed without a word')
  t.equal(await count('HEAD_TOO_SLOW'), 3)
})

t.test('attack: long heads of strangers share a bound, and leave room for short ones', async (t) => {
  const { open, count } = await setUp(t, { limits: { maxUnknownHeadBytes: mib } })
  const partial = `GET /k8s-proxy/${'a'.repeat(600_000)}`
  const first = (await open()).write(partial)
  const short = async () => t.match(await (await open()).write(`${get}\r\n`).until(/ok$/), /^HTTP\/1\.1 200 /)
  const refused = async (bytes: string, name: string) =>
    t.match(await (await open()).write(bytes).until(/\n$/), status(431), name)
  await eventually(() => {
    if (first.socket.bytesWritten < partial.length) throw new Error('it is not sent yet')
  })
  await eventually(async () => {
    const client = await open()
    const text = await client.write(`${get}X-A: ${'a'.repeat(700_000)}\r\n\r\n`).until(/ok$|\n$/)
    if (!text.startsWith('HTTP/1.1 431 ')) throw new Error('the first has not been read yet')
  })
  await refused(`${get}${'X-A: b\r\n'.repeat(4000)}\r\n`, 'its lines, which cost more than their bytes')
  await short()
  t.equal(first.ended, undefined)
  first.close()
  const fits = `${get}X-A: ${'a'.repeat(1_000_000)}\r\n\r\n`
  await eventually(async () => {
    const text = await (await open()).write(fits).until(/ok$|\n$/)
    if (!text.startsWith('HTTP/1.1 200 ')) throw new Error('its room has not come back yet')
  })
  for (let i = 0; i < 5; i++) {
    t.match(await (await open()).write(fits).until(/ok$|\n$/), /^HTTP\/1\.1 200 /, 'who is let in gives it back')
    t.match(await (await open()).write(fits.replace('good', 'bad')).until(/\n$/), status(401), 'and who is refused')
    t.match(await (await open()).write(fits.replace('k8s-proxy', 'else')).until(/\n$/), status(400))
    const upgrade = fits.replace('Host:', 'Connection: Upgrade\r\nUpgrade: websocket\r\nHost:').replace('good', 'bad')
    t.match(await (await open()).write(upgrade).until(/\n$/), status(401), 'also of an upgrade')
  }
  t.ok((await count('HEAD_TOO_LARGE')) >= 2)
})

t.test('attack: long heads of one address that have no end take no room from another', async (t) => {
  const { port, open } = await setUp(t, { limits: { maxUnknownHeadBytes: 2 * mib } })
  const evil = await Promise.all(Array.from({ length: 3 }, () => RawClient.open(port, '127.0.0.66')))
  t.teardown(() => evil.map((client) => client.close()))
  for (const client of evil) client.write(`GET /k8s-proxy/${'a'.repeat(mib - 1000)}`)
  await Promise.any(evil.map((client) => client.until(/\n$/)))
  const long = `${get}X-A: ${'a'.repeat(mib - 1000)}\r\n\r\n`
  for (let i = 0; i < 3; i++) t.match(await (await open()).write(long).until(/ok$|\n$/), /^HTTP\/1\.1 200 /)
})

t.test('the room is held until the directory has said who calls', async (t) => {
  const asked = Promise.withResolvers<void>()
  const known = Promise.withResolvers<void>()
  const slow: typeof directory = {
    ...directory,
    grantJob: async (...args) => {
      if (args[1] === 'good') {
        asked.resolve()
        await known.promise
      }
      return await directory.grantJob(...args)
    },
  }
  const { open } = await setUp(t, { limits: { maxUnknownHeadBytes: mib } }, undefined, { directory: slow })
  const long = (credential: string) => `${get.replace('good', credential)}X-A: ${'a'.repeat(1_000_000)}\r\n\r\n`
  const waiting = (await open()).write(long('good'))
  await asked.promise
  t.match(await (await open()).write(long('as-job')).until(/\n$/), status(431))
  known.resolve()
  await waiting.until(/ok$/)
  t.match(await (await open()).write(long('as-job')).until(/ok$/), /^HTTP\/1\.1 200 /)
})

t.test('attack: trailers and framing of a body have no more than a short head', async (t) => {
  const { open, count } = await setUp(t)
  const post = `POST /k8s-proxy/ HTTP/1.1\r\nHost: kas\r\n${good}\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n`
  const client = (await open()).write(`${post}0\r\nX-A: ${'a'.repeat(500_000)}`)
  t.match(await client.toEnd(), status(431))
  t.equal(await count('HEAD_TOO_LARGE'), 1)
  const small = (await open()).write(`${post}0\r\nX-A: ${'a'.repeat(1000)}\r\n\r\n`)
  t.match(await small.until(/ok$/), /^HTTP\/1\.1 200 /)
  const long = (await open()).write(`${post}${`10000\r\n${'x'.repeat(65_536)}\r\n`.repeat(40)}0\r\n\r\n`)
  t.match(await long.until(/ok$/), /^HTTP\/1\.1 200 /, 'a long body is none')
})
