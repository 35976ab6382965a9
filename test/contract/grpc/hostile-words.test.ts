import { once } from 'node:events'
import type { ServerHttp2Stream } from 'node:http2'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { Code, KasError } from '../../../src/lib/errors.ts'
import { ClientSession } from '../../../src/proto/grpc/client-session.ts'
import { replicaLimits } from '../../../src/proto/grpc/limits.ts'
import { maxMetadataBytes, maxStatusTextBytes } from '../../../src/proto/grpc/sendable.ts'
import { ours, oursWithBodyTrailers, serveOurs } from './ours.ts'
import { rawServer } from './raw-peers.ts'
import { bytes, collect, Failure, type Side, type TestHandler, text } from './sides.ts'

/** Hostile metadata and errors of a tenant pass between replicas and end no connection. */

t.setTimeout(60_000)

/** Hostile metadata. node ends a connection over the first two groups, and over many of the others. */
const nasty: Record<string, Record<string, string[]>> = {
  'a value of 70 kB': { k: ['x'.repeat(70_000)] },
  'values of 70 kB together': Object.fromEntries(Array.from({ length: 70 }, (_, i) => [`k${i}`, ['x'.repeat(1000)]])),
  '2,000 values': { k: Array.from({ length: 2000 }, () => 'v') },
  '2,000 names': Object.fromEntries(Array.from({ length: 2000 }, (_, i) => [`k${i}`, ['v']])),
  NUL: { k: ['a\0b'], 'k\0': ['a'] },
  'line ends': { k: ['a\r\nkas-tunnel: none'], 'k\n': ['a'] },
  'controls and beyond bytes': { k: ['\x01', '\x7f', '\u0100'] },
  'no name': { '': ['x'], ' ': ['x'], A: ['x'], 'a b': ['x'], ':path': ['/'], é: ['x'] },
  'of one hop': { connection: ['close'], te: ['x'], upgrade: ['h2'], 'transfer-encoding': ['chunked'], host: ['h'] },
  'a length': { 'content-length': ['5'] },
  'what may stand once': { age: ['1', '2'], 'retry-after': ['1', '2'] },
  'white space around': { k: [' v ', '\t'] },
}

/** Runs a stream during the whole test and checks that it stays whole. */
async function beside(t: Test, pair: Side, handlers: Record<string, TestHandler>) {
  const echo: TestHandler = async ({ messages, send }) => {
    for await (const message of messages) await send(message)
    return {}
  }
  const server = await serveOurs({ ...handlers, '/test.Contract/Echo': echo }, replicaLimits)
  t.teardown(() => server.close())
  const client = await pair.connect(server.port)
  t.teardown(() => client.close())
  const call = await client.call('/test.Contract/Echo')
  const answers = call.messages[Symbol.asyncIterator]()
  let count = 0
  const lives = async () => {
    await call.send(bytes(`${++count}`))
    return text((await answers.next()).value) === `${count}`
  }
  t.ok(await lives())
  return { client, lives, connections: () => server.sessions.size }
}

for (const side of [ours, oursWithBodyTrailers]) {
  t.test(`${side.name}: in heads, trailers and requests`, async (t) => {
    const say: TestHandler = async ({ metadata, sendMetadata }) => {
      const words = nasty[(metadata.what ?? [])[0] ?? ''] ?? {}
      if (metadata.where?.[0] === 'head') sendMetadata(words)
      return metadata.where?.[0] === 'trailers' ? words : {}
    }
    const { client, lives, connections } = await beside(t, side, { '/test.Contract/Say': say })
    for (const [what, words] of Object.entries(nasty)) {
      for (const where of ['head', 'trailers', 'request']) {
        const told = { what: [what], where: [where] }
        const metadata = where === 'request' ? { ...told, ...words, ...told } : told
        const call = await client.call('/test.Contract/Say', { metadata })
        call.end()
        const head = await call.metadata
        await collect(call.messages)
        const { code, trailers } = await call.done
        t.equal(code, Code.OK, `${what}, ${where}`)
        const bytesHeard = Object.entries({ ...head, ...trailers }).flatMap(([name, values]) =>
          values.map((value) => name.length + value.length),
        )
        t.ok(bytesHeard.reduce((sum, length) => sum + length, 0) <= 2 * maxMetadataBytes)
        t.notOk(head?.['kas-tunnel'] || trailers['kas-tunnel'], 'nothing is forged')
        t.ok(await lives())
      }
    }
    t.equal(connections(), 1)
  })

  t.test(`${side.name}: in the text of an error, and in its details`, async (t) => {
    const texts = ['x', '%', '\0', '\r\n', 'é', '漢', '🙂'].map((one) => one.repeat(70_000))
    const fail: TestHandler = async ({ messages }) => {
      for await (const message of messages) throw new Failure(Code.NOT_FOUND, texts[Number(text(message))] as string)
      return {}
    }
    const { client, lives, connections } = await beside(t, side, { '/test.Contract/Fail': fail })
    for (const [i, whole] of texts.entries()) {
      const call = await client.call('/test.Contract/Fail')
      await call.send(bytes(`${i}`))
      call.end()
      await collect(call.messages)
      const { code, message } = await call.done
      t.equal(code, Code.NOT_FOUND)
      t.ok(message.startsWith(whole.slice(0, 100)))
      t.match(message, / \.\.\. \(cut, of \d+ bytes\)$/)
      t.ok(Buffer.byteLength(message) <= maxStatusTextBytes)
      t.ok(await lives())
    }
    t.equal(connections(), 1)
  })
}

t.test('a replica that sends what is not valid, again and again, ends its own calls alone', async (t) => {
  let count = 0
  const answer = (stream: ServerHttp2Stream) => {
    stream.respond({ ':status': 200, 'content-type': 'application/grpc', 'x-evil': `a\0${count++}` })
    stream.end()
  }
  const { streamResetBurst, streamResetRate } = replicaLimits
  const port = await rawServer(t, answer, { streamResetBurst, streamResetRate })
  const client = await serialClient(t, port)
  for (let i = 0; i < 1500; i++) await client()
  t.equal(count, 1500)
})

/** Makes calls over one connection, as replicas do. */
async function serialClient(t: Test, port: number) {
  const socket = connect({ port, host: '127.0.0.1' })
  await once(socket, 'connect')
  const session = ClientSession.over(socket, { authority: 'kas.test', scheme: 'http', limits: replicaLimits })
  t.teardown(() => session.destroy())
  return async () => {
    const stream = session.open({ method: '/a.B/C' })
    const { error } = await stream.done
    if (!(error instanceof KasError)) throw new Error('it was taken for an answer')
    if (session.draining) throw new Error('the connection has ended')
  }
}
