import { once } from 'node:events'
import { mock } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import type { Directory } from '../../../src/kas/directory/directory.ts'
import type { OpenedSocket, OwnConversation } from '../../../src/kas/own-endpoint.ts'
import { WebSocketTokens } from '../../../src/kas/servers/kubernetes/watch/websocket-tokens.ts'
import { opcodes, serverFrame } from '../../../src/kas/servers/kubernetes/websocket/server-frames.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { eventually } from '../../support/eventually.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { patience } from '../../support/slowness.ts'
import { webSocketFrames } from '../../support/websocket-frames.ts'
import { clusterForward, echo } from './fake-cluster.ts'
import { RawClient } from './raw-client.ts'
import { directory, directoryWithBob, startServer } from './start-server.ts'
import { tokenProtocol } from './watch-client.ts'

/** WebSockets of paths that kas itself serves on 8154, with an endpoint from the test. */

const asJob = { Authorization: 'Bearer ci:42:as-job' }
const what = 'WebSockets for words of this agent'

const upgrade = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==']
const version = 'Sec-WebSocket-Version: 13'
const words = [version, 'Sec-WebSocket-Protocol: words']
const job = `Authorization: ${asJob.Authorization}`

type Conversation = Partial<OwnConversation>

/** Starts a server. The test handles the WebSockets of its endpoint. */
async function start(t: Test, converse: (opened: OpenedSocket) => Conversation = () => ({})) {
  const clock = new ManualClock()
  const world = { directory: directory as Pick<Directory, 'grantJob' | 'grantUser'>, asked: 0 }
  const opened: OpenedSocket[] = []
  const calls: string[] = []
  const webSocketTokens = new WebSocketTokens({ secret: Buffer.alloc(64), clock })
  const started = await startServer(
    clusterForward(echo),
    { accessCheckMs: 1000, limits: { maxOwnSockets: 2 } },
    undefined,
    {
      clock,
      webSocketTokens,
      directory: {
        grantJob: (...asked) => {
          world.asked += 1
          return world.directory.grantJob(...asked)
        },
        grantUser: (...asked) => world.directory.grantUser(...asked),
      },
      endpoints: [
        {
          path: '/words',
          methods: ['GET'],
          serve: async () => ({ status: 200, mediaType: 'text/plain', body: Buffer.from('no WebSocket') }),
          upgrade: {
            protocol: 'words',
            maxMessageBytes: 10,
            what,
            open: (one) => {
              opened.push(one)
              const said = converse(one)
              return {
                message: (data, isBinary) => said.message?.(data, isBinary),
                ...(said.changed ? { changed: said.changed } : {}),
                withdraw: (reason) => {
                  calls.push(`withdraw ${reason.code}`)
                  said.withdraw?.(reason)
                },
                closed: () => {
                  calls.push('closed')
                  said.closed?.()
                },
              }
            },
          },
        },
      ],
    },
  )
  t.teardown(() => started.server.stop(AbortSignal.abort()))
  const open = async (headers: Record<string, string> = asJob, protocols = ['words']) => {
    const socket = new WebSocket(`ws://127.0.0.1:${started.port}/k8s-proxy/words`, protocols, { headers })
    t.teardown(() => socket.terminate())
    const closed = once(socket, 'close').then(([code, reason]) => ({ code, reason: String(reason) }))
    closed.catch(() => undefined) // 'open' rejects if kas refuses
    await once(socket, 'open')
    return { socket, closed }
  }
  /** Returns the answer to a refused WebSocket request with these additional headers. */
  const refused = async (...headers: string[]) => {
    const client = await RawClient.open(started.port)
    t.teardown(() => client.close())
    return await client.request('GET /k8s-proxy/words', ...upgrade, ...headers).toEnd()
  }
  return { ...started, clock, world, opened, calls, open, refused, webSocketTokens }
}

t.test('it is opened for who may use the agent, as whom he may; else nothing of it is asked', async (t) => {
  const { open, refused, opened, world, port } = await start(t)
  const stranger = await refused(...words)
  t.match(stranger, /^HTTP\/1\.1 401 /)
  t.match(stranger, /no valid credentials/)
  t.match(await refused(...words, 'Authorization: Bearer ci:42:bad'), /^HTTP\/1\.1 401 /)
  t.match(await refused(...words, 'Authorization: Bearer ci:43:good'), /^HTTP\/1\.1 403 /)
  const forged = `Sec-WebSocket-Protocol: ${tokenProtocol('forged')}`
  t.match(await refused(...words, forged), /^HTTP\/1\.1 401 /, 'a token that is none of ours')
  const asked = world.asked
  t.match(await refused(...words, forged, 'Origin: https://evil.example'), /^HTTP\/1\.1 403 /, 'another page')
  t.equal(world.asked, asked, 'of whom nothing is checked')
  t.match(await refused(job, version, 'Sec-WebSocket-Protocol: other'), /^HTTP\/1\.1 426 /)
  t.match(await refused(job, 'Sec-WebSocket-Version: 12', 'Sec-WebSocket-Protocol: words'), /^HTTP\/1\.1 400 /)
  t.equal(world.asked, asked + 2, 'what is wrong with his WebSocket he learns alone who has been let in')
  t.equal(opened.length, 0)
  const plain = await fetch(`http://127.0.0.1:${port}/k8s-proxy/words`, { headers: asJob })
  t.equal(await plain.text(), 'no WebSocket')
  await open()
  t.match(opened, [{ agentId: 42n, impersonation: { username: 'gitlab:ci_job:900' } }])
})

t.test('a token opens it for the path that it was made for', async (t) => {
  const { open, refused, opened, webSocketTokens } = await start(t)
  const credentials = { kind: 'job', agentId: 42n, token: 'as-job' } as never
  const own = await webSocketTokens.seal(credentials, '/words')
  const other = await webSocketTokens.seal(credentials, '/echo')
  t.match(await refused(...words, `Sec-WebSocket-Protocol: ${tokenProtocol(other)}`), /^HTTP\/1\.1 401 /)
  await open({}, ['words', tokenProtocol(own)])
  t.equal(opened.length, 1)
})

t.test('an agent has so many, and another one its own', async (t) => {
  const { open, refused, count, server, calls, log } = await start(t)
  const [first] = [await open(), await open()]
  const refusal = await refused(...words, job)
  t.match(refusal, /^HTTP\/1\.1 429 /)
  t.match(refusal, /Too many WebSockets for words of this agent, allowed: 2/)
  t.equal(await count('TOO_MANY_STREAMS'), 1)
  t.equal(log.filter((line) => line.includes('"limit_name":"sockets_about_agent"')).length, 1, 'which limit it was')
  first.socket.close()
  await first.closed
  const next = await eventually(() => open())
  const stopped = server.stop(AbortSignal.timeout(patience(10_000)))
  t.match(await next.closed, { code: 1001 }, 'kas leaves')
  await stopped
  t.strictSame(calls, ['closed', 'closed', 'closed'])
  t.equal(await count('upgraded'), 3)
})

t.test('messages are bounded, and none comes once it is being closed', async (t) => {
  const got: string[] = []
  const { open, opened } = await start(t, ({ socket }) => ({
    message: (data, isBinary) => {
      got.push(`${data} ${isBinary}`)
      if (String(data) === 'close') socket.close(1000, 'as you wish')
      else void socket.send(`${data}!`)
    },
  }))
  const { socket, closed } = await open()
  socket.send('one')
  t.equal(String((await once(socket, 'message'))[0]), 'one!')
  socket.send(Buffer.from('two'))
  socket.send('close')
  socket.send('late')
  t.strictSame(await closed, { code: 1000, reason: 'as you wish' })
  t.strictSame(got, ['one false', 'two true', 'close false'])
  const long = await open()
  long.socket.send('x'.repeat(11))
  t.match(await long.closed, { code: 1009 })
  t.equal(opened.length, 2)
})

t.test('who may no longer, or is somebody else, is its conversation’s to handle', async (t) => {
  const { open, world, clock, calls, log } = await start(t, ({ socket, failed }) => ({
    changed: (now) => void calls.push(`changed ${now?.username}`),
    withdraw: (reason) => {
      failed(reason, 'Words failed')
      socket.close(1008, reason.message)
    },
  }))
  const { closed } = await open()
  world.directory = {
    ...directory,
    grantJob: async (...asked) => ({ ...(await directory.grantJob(...asked)), accessAs: { as: 'agent' } }),
  }
  clock.advance(1000)
  await eventually(() => calls.length === 1 || Promise.reject(new Error(`${calls}`)))
  world.directory = { ...directory, grantJob: () => Promise.reject(new KasError({ code: 'JOB_TOKEN_UNAUTHORIZED' })) }
  clock.advance(1000)
  t.match(await closed, { code: 1008, reason: /CI job token/ })
  await eventually(() => calls.length === 3 || Promise.reject(new Error(`${calls}`)))
  t.strictSame(calls, ['changed undefined', 'withdraw JOB_TOKEN_UNAUTHORIZED', 'closed'])
  t.ok(log.some((line) => line.includes('"Words failed"') && line.includes('JOB_TOKEN_UNAUTHORIZED')))
})

t.test('one who may no longer is closed, whatever his conversation does', async (t) => {
  const { open, world, clock, calls, count } = await start(t, () => ({
    withdraw: () => {
      throw new TypeError('it does not close it')
    },
  }))
  const [first, second] = [await open(), await open()]
  world.directory = { ...directory, grantJob: () => Promise.reject(new KasError({ code: 'JOB_TOKEN_UNAUTHORIZED' })) }
  clock.advance(1000)
  t.match(await first.closed, { code: 1011 })
  t.match(await second.closed, { code: 1011 })
  await eventually(() => calls.length === 4 || Promise.reject(new Error(`${calls}`)))
  t.equal(await count('INTERNAL'), 2)
})

t.test(
  'where a conversation cannot change whom it is for, it ends, and is closed though it does not say so',
  async (t) => {
    const { open, world, clock, calls } = await start(t)
    const { closed } = await open()
    world.directory = {
      ...directory,
      grantJob: async (...asked) => ({ ...(await directory.grantJob(...asked)), accessAs: { as: 'agent' } }),
    }
    clock.advance(1000)
    t.match(await closed, { code: 1008 })
    await eventually(() => calls.length === 2 || Promise.reject(new Error(`${calls}`)))
    t.match(calls, [/^withdraw /, 'closed'])
  },
)

for (const where of ['open', 'message', 'a message, later,'] as const) {
  t.test(`what throws in ${where} ends its WebSocket alone`, async (t) => {
    let isBroken = true
    const fail = () => {
      if (isBroken) throw new TypeError('secret detail')
    }
    const { open, count, log } = await start(t, () => {
      if (where === 'open') fail()
      return { message: where === 'message' ? fail : async () => fail() }
    })
    const { socket, closed } = await open()
    if (where !== 'open') socket.send('x')
    t.strictSame(await closed, { code: 1011, reason: 'Internal error' })
    t.equal(await count('INTERNAL'), 1)
    t.ok(log.some((line) => line.includes('A WebSocket failed') && line.includes('secret detail')))
    isBroken = false
    const next = await open()
    next.socket.close()
    await next.closed
  })
}

t.test('where there are too many, who has most makes room: the newest is closed, with the reason', async (t) => {
  const { open, world, calls, count, log } = await start(t)
  world.directory = directoryWithBob
  const [first, second] = [await open(), await open()]
  const bobs = await open({ Authorization: 'Bearer pat:42:bob' })
  t.same(await second.closed, {
    code: 1013,
    reason: 'Too many WebSockets for words of this agent, allowed: 2. You hold 2 of them: end some, or try again later',
  })
  await eventually(() => calls.length === 2)
  t.same(calls, ['withdraw TOO_MANY_STREAMS', 'closed'])
  t.equal(await count('TOO_MANY_STREAMS'), 1)
  t.equal(log.filter((line) => line.includes('"limit_name":"sockets_about_agent"')).length, 1)
  await t.rejects(open(), /429/, 'nobody makes room for as much')
  await t.rejects(open({ Authorization: 'Bearer pat:42:bob' }), /429/)
  for (const { socket } of [first, bobs]) t.equal(socket.readyState, WebSocket.OPEN)
})

t.test('a client that writes all before it reads gets what was said, and why it ends', async (t) => {
  const { port } = await start(t, ({ socket }) => ({
    message: (data) => {
      void socket.send('x'.repeat(50_000))
      if (String(data) === 'end') socket.close(4000, 'enough')
    },
  }))
  mock.timers.enable({ apis: ['setTimeout'] }) // the time to close never ends
  t.teardown(() => mock.timers.reset())
  const masked = (payload: Buffer) => {
    const frame = serverFrame(opcodes.binary, payload)
    const at = frame.length - payload.length
    frame[1] = (frame[1] as number) | 0x80
    return Buffer.concat([frame.subarray(0, at), Buffer.alloc(4), frame.subarray(at)])
  }
  for (const [first, code] of [
    ['end', 4000],
    ['go', 1009],
  ] as const) {
    const client = await RawClient.open(port)
    t.teardown(() => client.close())
    await client.request('GET /k8s-proxy/words', ...upgrade, ...words, job).until(/\r\n\r\n/)
    client.text = ''
    client.socket.pause()
    client.socket.write(masked(Buffer.from(first)))
    for (let i = 0; i < 30; i++)
      await new Promise((resolve) => client.socket.write(masked(Buffer.alloc(50_000)), resolve))
    client.socket.resume()
    const close = () => webSocketFrames(Buffer.from(client.text, 'latin1')).at(-1)
    while (close()?.opcode !== opcodes.close && !client.ended) await nextTurn()
    const [said] = webSocketFrames(Buffer.from(client.text, 'latin1'))
    t.equal(client.ended, undefined)
    t.equal(said?.payload.length, 50_000)
    t.equal(close()?.payload.readUInt16BE(), code)
  }
})
