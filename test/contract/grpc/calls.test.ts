import t, { type Test } from 'tap'
import type { Metadata } from '../../../src/call/call.ts'
import { Code } from '../../../src/lib/errors.ts'
import { grpcJs } from './grpc-js.ts'
import { ours, oursWithBodyTrailers } from './ours.ts'
import { bytes, type Client, collect, Failure, type Side, type SideOptions, type TestHandler, text } from './sides.ts'

/** Cases that each client and each server must pass with each other. */

t.setTimeout(60_000)
const pairs: [client: Side, server: Side][] = [
  [grpcJs, ours],
  [ours, grpcJs],
  [ours, ours],
  [oursWithBodyTrailers, ours],
  [oursWithBodyTrailers, grpcJs],
]

const echo: TestHandler = async ({ messages, send }) => {
  for await (const message of messages) await send(message)
  return {}
}

interface Ground {
  readonly client: Client
  readonly goaway: () => void
}

async function ground(
  t: Test,
  [client, server]: [Side, Side],
  handlers: Record<string, TestHandler>,
  options: { client?: SideOptions; server?: SideOptions } = {},
): Promise<Ground> {
  const serving = await server.serve(handlers, options.server)
  t.teardown(() => serving.close())
  const connected = await client.connect(serving.port, options.client)
  t.teardown(() => connected.close())
  return { client: connected, goaway: () => serving.goaway() }
}

for (const pair of pairs) {
  t.test(`${pair[0].name} calls ${pair[1].name}`, async (t) => {
    t.test('one message each way, with headers and trailers', async (t) => {
      const { client } = await ground(t, pair, {
        '/test.Contract/Unary': async ({ messages, send, sendMetadata }) => {
          const [request] = await collect(messages)
          sendMetadata({ 'x-head': ['h'] })
          await send(bytes(`got ${text(request)}`))
          return { 'x-tail': ['t'] }
        },
      })
      const call = await client.call('/test.Contract/Unary')
      await call.send(bytes('ping'))
      call.end()
      t.strictSame((await collect(call.messages)).map(text), ['got ping'])
      t.strictSame((await call.metadata)?.['x-head'], ['h'])
      t.match(await call.done, { code: 0, trailers: { 'x-tail': ['t'] } })
    })

    t.test('empty messages are messages', async (t) => {
      const { client } = await ground(t, pair, { '/test.Contract/Echo': echo })
      const call = await client.call('/test.Contract/Echo')
      for (let i = 0; i < 3; i++) await call.send(new Uint8Array(0))
      call.end()
      t.strictSame(
        (await collect(call.messages)).map((one) => one.length),
        [0, 0, 0],
      )
      t.match(await call.done, { code: 0 })
    })

    t.test('a stream of answers keeps its order', async (t) => {
      const { client } = await ground(t, pair, {
        '/test.Contract/Many': async ({ messages, send }) => {
          const [count] = await collect(messages)
          for (let i = 0; i < Number(text(count)); i++) await send(bytes(`${i}`))
          return {}
        },
      })
      const call = await client.call('/test.Contract/Many')
      await call.send(bytes('2000'))
      call.end()
      const answers = await collect(call.messages)
      t.equal(answers.length, 2000)
      t.ok(answers.every((one, i) => text(one) === `${i}`))
      t.match(await call.done, { code: 0 })
    })

    t.test('a stream of requests ends with the half-close, and the answer comes after it', async (t) => {
      const { client } = await ground(t, pair, {
        '/test.Contract/Sum': async ({ messages, send }) => {
          let total = 0
          for await (const message of messages) total += message.length
          await send(bytes(`${total}`))
          return {}
        },
      })
      const call = await client.call('/test.Contract/Sum')
      for (let i = 0; i < 500; i++) await call.send(new Uint8Array(i))
      call.end()
      t.strictSame((await collect(call.messages)).map(text), [`${(499 * 500) / 2}`])
    })

    t.test('both ways at once, message by message', async (t) => {
      const { client } = await ground(t, pair, { '/test.Contract/Echo': echo })
      const call = await client.call('/test.Contract/Echo')
      const answers = call.messages[Symbol.asyncIterator]()
      for (let i = 0; i < 100; i++) {
        await call.send(bytes(`${i}`))
        t.equal(text((await answers.next()).value), `${i}`)
      }
      call.end()
      t.ok((await answers.next()).done)
      t.match(await call.done, { code: 0 })
    })

    t.test('a server may end before the client has half-closed', async (t) => {
      const { client } = await ground(t, pair, {
        '/test.Contract/Enough': async ({ messages, send }) => {
          for await (const message of messages) {
            await send(message)
            break
          }
          return { 'x-tail': ['enough'] }
        },
        '/test.Contract/Echo': echo,
      })
      const call = await client.call('/test.Contract/Enough')
      await call.send(bytes('a'))
      t.strictSame((await collect(call.messages)).map(text), ['a'])
      t.match(await call.done, { code: 0, trailers: { 'x-tail': ['enough'] } })
      await survives(t, client)
    })

    t.test('an error without an answer, its text in any script', async (t) => {
      const message = 'näh: 100 % — 日本語\n"quoted"'
      const { client } = await ground(t, pair, {
        '/test.Contract/Fail': async () => {
          throw new Failure(Code.FAILED_PRECONDITION, message)
        },
      })
      const call = await client.call('/test.Contract/Fail')
      call.end()
      t.strictSame(await collect(call.messages), [])
      t.match(await call.done, { code: Code.FAILED_PRECONDITION, message })
    })

    t.test('an error after messages leaves them readable', async (t) => {
      const { client } = await ground(t, pair, {
        '/test.Contract/FailLate': async ({ send }) => {
          await send(bytes('one'))
          await send(bytes('two'))
          throw new Failure(Code.DATA_LOSS, 'late')
        },
      })
      const call = await client.call('/test.Contract/FailLate')
      call.end()
      t.strictSame((await collect(call.messages)).map(text), ['one', 'two'])
      t.match(await call.done, { code: Code.DATA_LOSS, message: 'late' })
    })

    t.test('an unknown method is UNIMPLEMENTED, on that call only', async (t) => {
      const { client } = await ground(t, pair, { '/test.Contract/Echo': echo })
      const call = await client.call('/test.Contract/Nothing')
      call.end()
      t.strictSame(await collect(call.messages), [])
      t.equal((await call.done).code, Code.UNIMPLEMENTED)
      await survives(t, client)
    })

    t.test('metadata: text, repeated and binary, both ways', async (t) => {
      const sent: Metadata = {
        'x-text': ['a value'],
        'x-repeated': ['one', 'two', 'three'],
        'x-comma': ['a, b'],
        'x-data-bin': [Buffer.from([0, 1, 2, 250, 255]).toString('base64')],
        'x-many-bin': [Buffer.from('first').toString('base64'), Buffer.from('second!').toString('base64')],
      }
      let received: Metadata = {}
      const { client } = await ground(t, pair, {
        '/test.Contract/Metadata': async ({ metadata, sendMetadata, send }) => {
          received = metadata
          sendMetadata(sent)
          await send(bytes('x'))
          return sent
        },
      })
      const call = await client.call('/test.Contract/Metadata', { metadata: sent })
      call.end()
      await collect(call.messages)
      const { trailers } = await call.done
      for (const [where, metadata] of Object.entries({ request: received, head: await call.metadata, trailers })) {
        for (const [key, values] of Object.entries(sent))
          t.strictSame(joined(key, metadata?.[key]), joined(key, values), `${where} ${key}`)
      }
    })

    t.test('a deadline ends the call on both sides', async (t) => {
      const ended = Promise.withResolvers<void>()
      const { client } = await ground(t, pair, {
        '/test.Contract/Hang': async ({ left }) => {
          await left
          ended.resolve()
          return {}
        },
        '/test.Contract/Echo': echo,
      })
      const call = await client.call('/test.Contract/Hang', { timeoutMs: 200 })
      await call.send(bytes('x'))
      t.equal((await call.done).code, Code.DEADLINE_EXCEEDED)
      await ended.promise
      await survives(t, client)
    })

    t.test('a cancelled call ends on both sides', async (t) => {
      const begun = Promise.withResolvers<void>()
      const ended = Promise.withResolvers<void>()
      const { client } = await ground(t, pair, {
        '/test.Contract/Hang': async ({ messages, left }) => {
          const one = await messages[Symbol.asyncIterator]().next()
          if (!one.done) begun.resolve()
          await left
          ended.resolve()
          return {}
        },
        '/test.Contract/Echo': echo,
      })
      const call = await client.call('/test.Contract/Hang')
      await call.send(bytes('x'))
      await begun.promise
      call.cancel()
      t.equal((await call.done).code, Code.CANCELLED)
      await ended.promise
      await survives(t, client)
    })

    t.test('GOAWAY: running calls finish, new ones go elsewhere', async (t) => {
      const { client, goaway } = await ground(t, pair, { '/test.Contract/Echo': echo })
      const running = await client.call('/test.Contract/Echo')
      const answers = running.messages[Symbol.asyncIterator]()
      await running.send(bytes('before'))
      t.equal(text((await answers.next()).value), 'before')
      goaway()
      await running.send(bytes('after'))
      t.equal(text((await answers.next()).value), 'after', 'the running call goes on')
      await survives(t, client)
      await running.send(bytes('last'))
      t.equal(text((await answers.next()).value), 'last')
      running.end()
      t.ok((await answers.next()).done)
      t.match(await running.done, { code: 0 })
    })
  })
}

// grpc-js ends such a call at once, both as client and as server
t.test('a deadline far away, beyond what a timer holds, ends nothing', async (t) => {
  const { client } = await ground(t, [ours, ours], { '/test.Contract/Echo': echo })
  const call = await client.call('/test.Contract/Echo', { timeoutMs: 40 * 24 * 3_600_000 })
  const answers = call.messages[Symbol.asyncIterator]()
  for (let i = 0; i < 20; i++) {
    await call.send(bytes('x'))
    t.notOk((await answers.next()).done)
  }
  call.end()
  t.match(await call.done, { code: 0 })
})

/** Joins repeated text headers with ", " as node:http2 does: gRPC allows both forms. */
function joined(key: string, values: readonly string[] = []): unknown {
  return key.endsWith('-bin') ? values.map((one) => Buffer.from(one, 'base64').toString('hex')) : values.join(', ')
}

async function survives(t: Test, client: Client): Promise<void> {
  const call = await client.call('/test.Contract/Echo')
  await call.send(bytes('alive'))
  call.end()
  t.strictSame((await collect(call.messages)).map(text), ['alive'], 'a new call works')
}
