import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import type { Directory, JobGrant } from '../../../src/kas/directory/directory.ts'
import { noUsage } from '../../../src/kas/directory/usage.ts'
import { readProtobufEvent } from '../../../src/kas/servers/kubernetes/watch/resume/protobuf-event.ts'
import { serverFrame } from '../../../src/kas/servers/kubernetes/websocket/server-frames.ts'
import { type ErrorSpec, KasError } from '../../../src/lib/errors.ts'
import { createRegistry } from '../../../src/lib/metrics.ts'
import { encodeHttpResponse } from '../../../src/proto/http/http-over-grpc.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { eventually } from '../../support/eventually.ts'
import { webSocketFrames } from '../../support/websocket-frames.ts'
import { type Cluster, clusterForward, data, head, trailer } from './fake-cluster.ts'
import { createKubernetesServer } from './start-server.ts'

/** A running request ends when its caller loses access (doc/reference/tunnel-protocol.md 6.3). */

const grant: JobGrant = {
  accessAs: { as: 'ci_job' },
  configProjectId: 1n,
  user: { id: 5n, username: 'ada' },
  job: { id: 900n },
  pipeline: { id: 90n },
  project: { id: 3n, groups: [] },
}
const json: [string, string[]][] = [['Content-Type', ['application/json']]]

async function start(t: Test, cluster: Cluster) {
  const tokens: string[] = []
  const world = { answer: async (): Promise<JobGrant> => grant, tokens, counted: 0 }
  const directory: Pick<Directory, 'grantJob' | 'grantUser'> = {
    grantJob: (_agent, token) => {
      tokens.push(token)
      return world.answer()
    },
    grantUser: () => Promise.reject(new Error('not asked here')),
  }
  const usage = { ...noUsage, counter: () => () => void world.counted++ }
  const { log, lines } = capturedLog()
  const register = createRegistry()
  const running = async () => {
    const [, value] = /^kas_kubernetes_requests_in_flight (\d+)$/m.exec(await register.metrics()) ?? []
    return Number(value)
  }
  const options = { urlPathPrefix: '/', accessCheckMs: 20 }
  const components = { directory, register, log, usage }
  const { server } = createKubernetesServer(clusterForward(cluster), options, undefined, components)
  t.teardown(() => server.stop(AbortSignal.abort()))
  await server.start()
  const { port } = server.address as { port: number }
  const open = (path: string, headers: Record<string, string> = {}) => {
    const call = request({ port, host: '127.0.0.1', path, headers: { authorization: 'Bearer ci:42:x', ...headers } })
    call.end()
    t.teardown(() => call.destroy())
    return call
  }
  /** Withdraws access after at least one check that found no fault. */
  const withdraw = async (error: KasError) => {
    await eventually(() => tokens.length >= 3 || Promise.reject(new Error('not asked again')))
    world.answer = () => Promise.reject(error)
  }
  return { world, open, withdraw, lines, running }
}

/** Sends `first`, then nothing. */
function silentAfter(first: string | Uint8Array, header = json): Cluster {
  return async function* () {
    yield head(200, header)
    yield data(first)
    await new Promise(() => undefined)
  }
}

async function read(call: ReturnType<typeof request>, encoding: BufferEncoding = 'utf8') {
  const [response] = await once(call, 'response')
  response.setEncoding(encoding)
  let text = ''
  let error: Error | undefined
  try {
    for await (const chunk of response) text += chunk
  } catch (caught) {
    error = caught as Error
  }
  return { status: response.statusCode as number, text, error }
}

const finished = () => new KasError({ code: 'JOB_TOKEN_UNAUTHORIZED' })

// wire: access.again
t.test('a watch ends with an event that says why', async (t) => {
  const event = '{"type":"ADDED","object":{}}\n'
  const { open, withdraw, world, lines } = await start(t, silentAfter(event))
  const answer = read(open('/api/v1/pods?watch=true'))
  await withdraw(finished())
  const { status, text, error } = await answer
  t.equal(status, 200)
  t.equal(error, undefined, 'it ends in order')
  const [first, last, ...more] = text.split('\n').slice(0, -1)
  t.equal(`${first}\n`, event)
  t.match(JSON.parse(last ?? ''), {
    type: 'ERROR',
    object: { kind: 'Status', message: 'GitLab Agent Server: Unauthorized: CI job token', code: 401 },
  })
  t.same(more, [])
  t.equal(world.counted, 2, 'only the request itself is counted')
  t.ok(lines.some(({ level, msg }) => level === 'info' && String(msg).includes('may no longer')))
})

// wire: access.again
t.test('in the middle of an event, of which its client has nothing yet, as well', async (t) => {
  const { open, withdraw } = await start(t, silentAfter('{"type":"ADD'))
  const answer = read(open('/api/v1/pods?watch=true'))
  await withdraw(finished())
  const { text, error } = await answer
  t.equal(error, undefined)
  t.match(JSON.parse(text), { type: 'ERROR', object: { code: 401 } })
})

t.test('a watch whose events cannot be told apart, and all else, is cut', async (t) => {
  const cases = [
    ['/api/v1/pods?watch=true', silentAfter('k8s\0...\n', [['Content-Type', ['application/vnd.kubernetes.protobuf']]])],
    ['/api/v1/namespaces/a/pods/b/log?follow=true', silentAfter('a line\n', [['Content-Type', ['text/plain']]])],
  ] as const
  for (const [path, cluster] of cases) {
    const { open, withdraw } = await start(t, cluster)
    const answer = read(open(path))
    await withdraw(finished())
    const { error } = await answer
    t.equal((error as NodeJS.ErrnoException | undefined)?.code, 'ECONNRESET', path)
  }
})

// wire: access.again
t.test('a watch in protobuf ends with such an event', async (t) => {
  const protobuf: typeof json = [['Content-Type', ['application/vnd.kubernetes.protobuf;stream=watch']]]
  const event = Buffer.concat([Buffer.of(0, 0, 0, 7), Buffer.from('\x0a\x05ADDED')])
  const { open, withdraw } = await start(t, silentAfter(Buffer.concat([event, Buffer.of(0, 0, 9)]), protobuf))
  const answer = read(open('/api/v1/pods?watch=true'), 'latin1')
  await withdraw(finished())
  const { text, error } = await answer
  t.equal(error, undefined, 'it ends in order')
  t.ok(text.startsWith(event.toString()))
  const last = Buffer.from(text.slice(event.length), 'latin1')
  t.equal(last.readUInt32BE(0), last.length - 4, 'one frame, whole, though half of another had come')
  t.match(readProtobufEvent(last), { type: 'ERROR' })
  t.match(last.toString(), /k8s\0.*Status.*Failure.*GitLab Agent Server: Unauthorized: CI job token/s)
})

t.test('whose watch ends for others is told in the same form', async (t) => {
  const overShare: ErrorSpec = {
    code: 'CALLER_OVER_SHARE',
    agentId: '42',
    held: 9,
    living: 10,
    watches: 9,
    retryAfterS: 5,
  }
  for (const spec of [overShare, { code: 'WATCH_RECALLED' }] satisfies ErrorSpec[]) {
    const event = '{"type":"ADDED","object":{}}\n'
    const { open } = await start(t, async function* () {
      yield head(200, json)
      yield data(`${event}{"type":"AD`)
      throw new KasError(spec)
    })
    const { text, error } = await read(open('/api/v1/pods?watch=true'))
    t.equal(error, undefined, 'in order')
    t.ok(text.startsWith(event))
    const rest = text.slice(event.length)
    if (spec === overShare) {
      const message = /^GitLab Agent Server: You hold 9 of/
      t.match(JSON.parse(rest), { type: 'ERROR', object: { code: 429, reason: 'TooManyRequests', message } })
    } else t.equal(rest, '', 'it may be opened again at once')
  }
})

t.test('a client that takes nothing is cut soon after', async (t) => {
  const line = `${JSON.stringify({ type: 'ADDED', object: { metadata: { name: 'x'.repeat(100_000) } } })}\n`
  const { open, withdraw, running } = await start(t, async function* () {
    yield head(200, json)
    for (;;) yield data(line)
  })
  const [response] = (await once(open('/api/v1/pods?watch=true'), 'response')) as [IncomingMessage]
  response.pause()
  await withdraw(finished())
  await eventually(async () => (await running()) === 0)
  const error = await response.toArray().then(
    () => undefined,
    (caught: Error) => caught,
  )
  t.match(error, { code: 'ECONNRESET' }, 'what has not come is missing, and it is seen')
})

interface Upgrade {
  readonly upgrade?: string
  /** protocol of the WebSocket, or of SPDY's streams */
  readonly protocol: string
  /** bytes that the cluster sends before and after the caller loses access */
  readonly before: Uint8Array
  readonly after?: Uint8Array
}

/** @returns all bytes that the client of a WebSocket gets after the 101 */
async function upgraded(t: Test, { upgrade = 'websocket', protocol, before, after }: Upgrade): Promise<Buffer> {
  const withdrawn = Promise.withResolvers<void>()
  const { open, withdraw, world, lines } = await start(t, async function* () {
    const header: typeof json = [
      ['Upgrade', [upgrade]],
      ['Connection', ['Upgrade']],
      [upgrade === 'websocket' ? 'Sec-Websocket-Protocol' : 'X-Stream-Protocol-Version', [protocol]],
    ]
    yield head(101, header, 'Switching Protocols')
    yield trailer
    yield encodeHttpResponse.upgradeData(before)
    await withdrawn.promise
    if (after) yield encodeHttpResponse.upgradeData(after)
    await new Promise(() => undefined)
  })
  const call = open('/api/v1/namespaces/a/pods/b/exec?command=sh', { connection: 'Upgrade', upgrade })
  const [, socket, first] = (await once(call, 'upgrade')) as [unknown, Socket, Buffer]
  const got = socket.toArray()
  await withdraw(finished())
  const isFound = () => lines.some(({ msg }) => String(msg).includes('may no longer'))
  await eventually(() => isFound() || Promise.reject(new Error('not found out')))
  withdrawn.resolve()
  const all = Buffer.concat([first, ...((await got) as Buffer[])])
  socket.end()
  t.equal(world.counted, 2)
  return all
}

const message = (text: string) => serverFrame(2, Buffer.from(text))

// wire: access.again
t.test('an exec over WebSocket ends with the reason on the channel of errors, at the end of a message', async (t) => {
  const [begun, rest] = [message('\x01one').subarray(0, 3), message('\x01one').subarray(3)]
  for (const protocol of ['v4.channel.k8s.io', 'v5.channel.k8s.io']) {
    const cases: Upgrade[] = [
      { protocol, before: message('\x01one') },
      { protocol, before: begun, after: Buffer.concat([rest, message('\x01two')]) },
    ]
    for (const each of cases) {
      const [one, error, close, ...more] = webSocketFrames(await upgraded(t, each))
      t.equal(one?.payload.toString(), '\x01one', protocol)
      t.equal(error?.opcode, 2)
      t.equal(error?.payload[0], 3)
      t.match(JSON.parse(String(error?.payload.subarray(1))), {
        kind: 'Status',
        status: 'Failure',
        message: 'GitLab Agent Server: Unauthorized: CI job token',
        code: 401,
      })
      t.equal(close?.opcode, 8)
      t.equal(close?.payload.readUInt16BE(0), 1000, 'as the API server closes it: else kubectl reads no error')
      t.same(more, [], 'nothing of what the cluster said behind it')
    }
  }
})

t.test('an exec by SPDY ends with the reason on its first stream, which is that of errors', async (t) => {
  const output = Buffer.concat([Buffer.of(0, 0, 0, 5, 0, 0, 0, 3), Buffer.from('one')])
  const cases = [
    { before: output },
    { before: output.subarray(0, 4), after: Buffer.concat([output.subarray(4), output]) },
  ]
  for (const each of cases) {
    const all = await upgraded(t, { upgrade: 'SPDY/3.1', protocol: 'v4.channel.k8s.io', ...each })
    t.same(all.subarray(0, output.length), output)
    const last = all.subarray(output.length)
    t.same(last.subarray(0, 5), Buffer.of(0, 0, 0, 1, 1), 'data of stream 1, and its end')
    t.equal(last.readUIntBE(5, 3), last.length - 8)
    t.match(JSON.parse(String(last.subarray(8))), {
      status: 'Failure',
      code: 401,
      message: /Unauthorized: CI job token$/,
    })
  }
  const forwarded = await upgraded(t, { upgrade: 'SPDY/3.1', protocol: 'portforward.k8s.io', before: output })
  t.same(forwarded, output, 'a port-forward is cut: kubectl ends with an error')
})

// wire: access.again
t.test('any other WebSocket is closed with a code, and the reason in words', async (t) => {
  const [one, close] = webSocketFrames(await upgraded(t, { protocol: 'chat', before: message('one') }))
  t.equal(one?.payload.toString(), 'one')
  t.equal(close?.opcode, 8)
  t.equal(close?.payload.readUInt16BE(0), 1008)
  t.equal(close?.payload.subarray(2).toString(), 'Unauthorized: CI job token')
})

t.test('where no message ends it is cut all the same', async (t) => {
  const sent = message('never whole').subarray(0, 5)
  const all = await upgraded(t, { protocol: 'v5.channel.k8s.io', before: sent })
  t.same(all, sent)
})

// wire: access.again
t.test('an upgraded connection is closed', async (t) => {
  const { open, withdraw } = await start(t, async function* () {
    yield head(
      101,
      [
        ['Upgrade', ['SPDY/3.1']],
        ['Connection', ['Upgrade']],
      ],
      'Switching Protocols',
    )
    yield trailer
    await new Promise(() => undefined)
  })
  const call = open('/api/v1/namespaces/a/pods/b/exec', { connection: 'Upgrade', upgrade: 'SPDY/3.1' })
  const [, socket] = await once(call, 'upgrade')
  socket.on('error', () => undefined)
  const closed = once(socket, 'close')
  await withdraw(finished())
  await closed
  t.pass('closed')
})

t.test('before the answer has begun the reason is the answer', async (t) => {
  const { open, withdraw } = await start(t, async function* () {
    await new Promise(() => undefined)
  })
  const answer = read(open('/api/v1/pods'))
  await withdraw(new KasError({ code: 'AGENT_NOT_ALLOWED' }))
  const { status, text } = await answer
  t.equal(status, 403)
  t.match(JSON.parse(text), { message: 'GitLab Agent Server: Forbidden: agentId is not allowed' })
})

t.test('other roles end it, for what runs has those of before', async (t) => {
  const { open, world } = await start(t, silentAfter('{}\n'))
  const answer = read(open('/api/v1/pods?watch=1'))
  await eventually(() => world.tokens.length >= 2 || Promise.reject(new Error('not asked again')))
  world.answer = async () => ({ ...grant, project: { id: 3n, groups: [{ id: 8n }] } })
  t.match((await answer).text, /"message":"GitLab Agent Server: forbidden: the roles of the caller have changed"/)
})

t.test('a directory that is away ends nothing, and a request that ended is not asked about', async (t) => {
  let finish = () => {}
  const { open, world } = await start(t, async function* () {
    yield head(200, json)
    yield data('{}')
    await new Promise<void>((resolve) => {
      finish = resolve
    })
    yield trailer
  })
  const answer = read(open('/api/v1/pods?watch=true'))
  const asked = async (token: string, count: number) => {
    const isAsked = () => world.tokens.filter((one) => one === token).length >= count
    await eventually(() => isAsked() || Promise.reject(new Error('not asked')))
  }
  await asked('x', 2) // the first check let the caller through
  world.answer = () => Promise.reject(new KasError({ code: 'JOB_AGENTS_FAILED' }))
  await asked('x', 6)
  finish()
  t.match(await answer, { status: 200, text: '{}', error: undefined })
  world.tokens.length = 0
  world.answer = async () => grant
  open('/api/v1/pods?watch=true', { authorization: 'Bearer ci:42:other' })
  await asked('other', 5)
  t.notOk(world.tokens.includes('x'))
})
