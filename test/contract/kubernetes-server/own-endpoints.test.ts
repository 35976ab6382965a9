import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import type { Directory } from '../../../src/kas/directory/directory.ts'
import type { OwnAnswer, OwnRequest } from '../../../src/kas/own-endpoint.ts'
import type { KubernetesLimits } from '../../../src/kas/servers/kubernetes/http/kubernetes-limits.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { eventually } from '../../support/eventually.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { patience } from '../../support/slowness.ts'
import { clusterForward, echo } from './fake-cluster.ts'
import { RawClient } from './raw-client.ts'
import { directory, directoryWithBob, startServer } from './start-server.ts'

/** Paths of 8154 that kas itself answers, with endpoints from the test. */

const asJob = { Authorization: 'Bearer ci:42:as-job' }
const asAgent = { Authorization: 'Bearer ci:42:good' }
const maxBodyBytes = 1000

async function start(
  t: Test,
  serve: (request: OwnRequest) => Promise<OwnAnswer>,
  limits: Partial<KubernetesLimits> = {},
) {
  const clock = new ManualClock()
  const world = { directory: directory as Pick<Directory, 'grantJob' | 'grantUser'>, requests: [] as OwnRequest[] }
  const started = await startServer(
    clusterForward(echo),
    { accessCheckMs: 1000, limits: { maxOwnBodyBytes: maxBodyBytes, ...limits } },
    undefined,
    {
      clock,
      directory: {
        grantJob: (...asked) => world.directory.grantJob(...asked),
        grantUser: (...asked) => world.directory.grantUser(...asked),
      },
      endpoints: [
        {
          path: '/echo/state',
          methods: ['GET', 'POST'],
          serve: (request) => {
            world.requests.push(request)
            return serve(request)
          },
        },
      ],
    },
  )
  t.teardown(() => started.server.stop(AbortSignal.abort()))
  const ask = (path: string, init: RequestInit = {}) =>
    fetch(`http://127.0.0.1:${started.port}/k8s-proxy${path}`, { headers: asJob, ...init })
  return { ...started, world, clock, ask }
}

const answerOf = (body: string | Uint8Array = ''): OwnAnswer => ({
  status: 200,
  mediaType: 'text/plain',
  body: typeof body === 'string' ? Buffer.from(body) : body,
})
const failure = async (response: Response) => [
  response.status,
  ((await response.json()) as { message: string }).message,
]

t.test('an endpoint is told who calls, as whom, and what is asked', async (t) => {
  const { ask, world, count } = await start(t, async ({ body }) => ({
    status: 202,
    mediaType: 'application/x-echo',
    body: Buffer.from(`got ${await text(body)}`),
  }))
  t.equal(await count('endpoint'), -1, 'there is no series before')
  const response = await ask('/echo/state?b=2&a=1&a=%33&gitlab-agent-id=7', {
    method: 'POST',
    body: 'hello',
    headers: { ...asJob, Origin: 'https://gitlab.example.com' },
  })
  t.equal(response.status, 202)
  t.equal(await response.text(), 'got hello')
  t.equal(response.headers.get('content-type'), 'application/x-echo')
  t.equal(response.headers.get('cache-control'), 'no-store')
  t.equal(response.headers.get('server'), 'gitlab-kas/v1.2.3/abc')
  t.equal(response.headers.get('access-control-allow-origin'), 'https://gitlab.example.com')
  t.match(world.requests[0], { agentId: 42n, method: 'POST', impersonation: { username: 'gitlab:ci_job:900' } })
  t.strictSame(
    [...(world.requests[0]?.query ?? [])],
    [
      ['a', ['1', '3']],
      ['b', ['2']],
    ],
  )

  t.equal(await (await ask('/echo/state', { headers: asAgent })).text(), 'got ')
  t.equal(world.requests[1]?.impersonation, undefined, 'as the agent itself')
  t.equal(await count('endpoint'), 2)
  t.equal(await count('answered'), 0)
})

t.test('nothing is asked of it before it is known that the caller may', async (t) => {
  const { ask, world } = await start(t, async () => answerOf('ok'))
  t.match(await failure(await ask('/echo/state', { headers: {} })), [401, /no valid credentials/])
  const refused = await ask('/echo/state', {
    method: 'POST',
    body: 'x',
    headers: { Authorization: 'Bearer ci:42:bad' },
  })
  t.match(await failure(refused), [401, /CI job token/])
  const other = await ask('/echo/state', { headers: { Authorization: 'Bearer ci:43:good' } })
  t.match(await failure(other), [403, /agentId is not allowed/])
  t.equal(world.requests.length, 0)
})

t.test('other methods are refused, other paths are the cluster’s', async (t) => {
  const { ask, world } = await start(t, async () => answerOf('ok'))
  const put = await ask('/echo/state', { method: 'PUT', body: 'x' })
  t.equal(put.status, 405)
  t.equal(put.headers.get('allow'), 'GET, POST')
  for (const path of ['/echo', '/echo/state/', '/echo/state/more', '/ECHO/state']) {
    t.match(await (await ask(path)).json(), { urlPath: path })
  }
  t.equal((await ask('/watch')).status, 404, 'what is built in stays')
  t.equal(world.requests.length, 0)
})

t.test('a body is bounded, whether or not its length is told', async (t) => {
  const { ask, world } = await start(t, async ({ body }) => answerOf(await text(body)))
  const whole = 'x'.repeat(maxBodyBytes)
  t.equal(await (await ask('/echo/state', { method: 'POST', body: whole })).text(), whole)
  const told = await ask('/echo/state', { method: 'POST', body: `${whole}x` })
  t.match(await failure(told), [413, /larger than max \(1001 vs\. 1000\)/])
  t.equal(world.requests.length, 1, 'it is not asked')
  const body = ReadableStream.from([Buffer.from(whole), Buffer.from('x')])
  const chunked = await ask('/echo/state', { method: 'POST', body, duplex: 'half' } as RequestInit)
  t.match(await failure(chunked), [413, /larger than max/])
})

t.test('its errors are answered as all others', async (t) => {
  const errors = [new KasError({ code: 'FORBIDDEN', reason: 'not you' }), new TypeError('secret detail')]
  const { ask, log, count } = await start(t, () => Promise.reject(errors.shift()))
  t.match(await failure(await ask('/echo/state')), [403, 'GitLab Agent Server: forbidden: not you'])
  t.match(await failure(await ask('/echo/state')), [500, /Internal error\. Trace ID: [0-9a-f]{32}$/])
  t.ok(log.some((line) => line.includes('secret detail')))
  t.equal(await count('failed'), 2)
})

t.test('it ends once the caller has left', async (t) => {
  const called = Promise.withResolvers<OwnRequest>()
  const { ask, server, count } = await start(t, (request) => {
    called.resolve(request)
    return new Promise(() => undefined)
  })
  const caller = new AbortController()
  const answer = ask('/echo/state', { signal: caller.signal })
  const { signal } = await called.promise
  const aborted = once(signal, 'abort')
  caller.abort()
  await t.rejects(answer)
  await aborted
  t.match(signal.reason, { code: 'CANCELLED' })
  await server.stop(AbortSignal.timeout(patience(10_000)))
  t.equal(await count('left'), 1)
})

t.test('it ends once the caller may no longer', async (t) => {
  const called = Promise.withResolvers<OwnRequest>()
  const { ask, world, clock } = await start(t, (request) => {
    called.resolve(request)
    return new Promise(() => undefined)
  })
  const answer = ask('/echo/state')
  const { signal } = await called.promise
  world.directory = { ...directory, grantJob: () => Promise.reject(new KasError({ code: 'JOB_TOKEN_UNAUTHORIZED' })) }
  const aborted = once(signal, 'abort')
  clock.advance(1000)
  await aborted
  t.match(await failure(await answer), [401, 'GitLab Agent Server: Unauthorized: CI job token'])
})

t.test('a body that is read once the caller has left ends with that', async (t) => {
  const begun = Promise.withResolvers<void>()
  const read = Promise.withResolvers<unknown>()
  const { port } = await start(t, async ({ body, signal }) => {
    begun.resolve()
    await once(signal, 'abort')
    text(body).then(read.resolve, read.resolve)
    throw signal.reason
  })
  const client = await RawClient.open(port)
  t.teardown(() => client.close())
  const head = `POST /k8s-proxy/echo/state HTTP/1.1\r\nHost: kas\r\nAuthorization: ${asJob.Authorization}\r\n`
  client.write(`${head}Content-Length: 10\r\n\r\nhalf`)
  await begun.promise
  client.close()
  t.type(await read.promise, KasError, 'and waits for nothing')
})

const post = `POST /k8s-proxy/echo/state HTTP/1.1\r\nHost: kas\r\nAuthorization: ${asJob.Authorization}\r\n`

t.test('a body that does not come to its end is waited for only so long', async (t) => {
  const { port, count } = await start(t, async ({ body }) => answerOf(await text(body)), { ownBodyTimeoutMs: 20 })
  const client = await RawClient.open(port)
  t.teardown(() => client.close())
  client.write(`${post}Content-Length: 10\r\n\r\nhalf`)
  const answer = await client.toEnd()
  t.match(answer, /^HTTP\/1\.1 408 /)
  t.match(answer, /The body of the request took too long/)
  t.equal(await count('failed'), 1)
})

t.test('about one agent only so many run at once', async (t) => {
  const running: PromiseWithResolvers<OwnAnswer>[] = []
  const begun = Promise.withResolvers<void>()
  const serve = () => {
    const answer = Promise.withResolvers<OwnAnswer>()
    if (running.push(answer) === 2) begun.resolve()
    return answer.promise
  }
  const { ask, count } = await start(t, serve, { maxOwnRequests: 2 })
  const asked = [ask('/echo/state'), ask('/echo/state')]
  await begun.promise
  const refusal = /Too many requests to kas itself about this agent, allowed: 2/
  t.match(await failure(await ask('/echo/state')), [429, refusal])
  t.equal(await count('TOO_MANY_STREAMS'), 1)
  running[0]?.resolve(answerOf('done'))
  t.equal(await (await Promise.race(asked)).text(), 'done')
  running[1]?.reject(new KasError({ code: 'FORBIDDEN' }))
  await Promise.all(asked)
  for (let i = 2; i < 4; i++) {
    const again = ask('/echo/state')
    await eventually(() => running.length > i)
    running[i]?.resolve(answerOf('again'))
    t.equal(await (await again).text(), 'again')
  }
})

/** A body that counts the bytes written. */
class CountedBody extends Uint8Array {
  written = 0

  override subarray(begin = 0, end = this.length): Uint8Array<ArrayBuffer> {
    this.written += Math.min(end, this.length) - begin
    return Buffer.from(this.buffer as ArrayBuffer, this.byteOffset + begin, Math.min(end, this.length) - begin)
  }
}

t.test(
  'who does not take his answer is cut, and then counts no more; what he would not take is not written',
  async (t) => {
    const size = 32 * 1024 * 1024
    const long = new CountedBody(size)
    const answers = [long, Buffer.from('short')]
    const ownAnswerRate = { perSecond: size, burst: 2 * size }
    const limits = { maxOwnRequests: 1, maxOwnAnswerBytes: size, ownAnswerRate, ownAnswerTimeoutMs: 50 }
    const { port, ask, count } = await start(t, async () => answerOf(answers.shift()), limits)
    const client = await RawClient.open(port)
    t.teardown(() => client.close())
    client.socket.pause()
    client.write(`${post}Content-Length: 0\r\n\r\n`)
    await eventually(async () => (await count('cut')) === 1)
    t.ok(long.written > 0 && long.written < size, `${long.written} bytes were written`)
    t.equal(await (await ask('/echo/state')).text(), 'short', 'there is room again')
    t.equal(await count('endpoint'), 1)
  },
)

t.test('answers about one agent have a rate in bytes: what is over delays the next one, and loses none', async (t) => {
  let served = 0
  const serve = async () => {
    served++
    return answerOf(Buffer.alloc(3000))
  }
  const { ask, clock } = await start(t, serve, { ownAnswerRate: { perSecond: 1000, burst: 1000 } })
  t.equal((await (await ask('/echo/state')).arrayBuffer()).byteLength, 3000)
  const second = ask('/echo/state')
  await eventually(() => clock.pending === 2) // one timer for the access check, one for the wait
  clock.advance(1999)
  t.equal(served, 1, 'nothing is made before')
  clock.advance(1)
  t.equal((await (await second).arrayBuffer()).byteLength, 3000)
  t.equal(served, 2)
})

t.test('an answer that is longer than kas keeps is a fault of kas', async (t) => {
  const { ask, log } = await start(t, async () => answerOf('too long'), { maxOwnAnswerBytes: 7 })
  t.match(await failure(await ask('/echo/state')), [500, /Internal error/])
  t.ok(log.some((line) => line.includes('the answer of /echo/state has 8 bytes')))
})

const asBob = { Authorization: 'Bearer pat:42:bob' }
const asUserOfJob = { Authorization: 'Bearer pat:42:good' }

t.test(
  'where all places are taken, who has most makes room for another: the newest is refused, and told',
  async (t) => {
    const running: PromiseWithResolvers<OwnAnswer>[] = []
    const serve = () => {
      const answer = Promise.withResolvers<OwnAnswer>()
      running.push(answer)
      return answer.promise
    }
    const { ask, world, count, log } = await start(t, serve, { maxOwnRequests: 3 })
    world.directory = directoryWithBob
    const asked = []
    for (let i = 1; i <= 3; i++) {
      asked.push(ask('/echo/state'))
      await eventually(() => running.length === i)
    }
    const refusal = /Too many requests to kas itself about this agent, allowed: 3\. You hold 3 of them: end some/
    t.match(await failure(await ask('/echo/state')), [429, refusal])
    t.match(await failure(await ask('/echo/state', { headers: asUserOfJob })), [429, refusal], 'the user of these jobs')
    const bobs = ask('/echo/state', { headers: asBob })
    t.match(await failure(await (asked[2] as Promise<Response>)), [429, refusal])
    t.equal(await count('TOO_MANY_STREAMS'), 3)
    t.equal(log.filter((line) => line.includes('"limit_name":"own_requests_about_agent"')).length, 3)
    await eventually(() => running.length === 4)
    t.match(world.requests[3], { caller: { key: /^[\w-]{22}$/ } })
    t.match(world.requests[0], { caller: { key: /^[\w-]{22}$/, userKey: /^[\w-]{22}$/ } })
    for (const answer of running) answer.resolve(answerOf('done'))
    for (const response of await Promise.all([asked[0], asked[1], bobs])) t.equal(response?.status, 200)
  },
)

t.test('bodies that do not come hold nobody else up', async (t) => {
  const { port, ask, world } = await start(t, async ({ body }) => answerOf(await text(body)), { maxOwnRequests: 2 })
  world.directory = directoryWithBob
  const slow = []
  for (let i = 0; i < 2; i++) {
    const client = await RawClient.open(port)
    t.teardown(() => client.close())
    client.write(`${post}Content-Length: 10\r\n\r\nhalf`)
    slow.push(client)
    await eventually(() => world.requests.length > i)
  }
  t.equal(await (await ask('/echo/state', { method: 'POST', body: 'whole', headers: asBob })).text(), 'whole')
  t.match(await slow[1]?.toEnd(), /^HTTP\/1\.1 429 .*You hold 2 of them/s)
})

t.test('who does not take an answer is cut for another', async (t) => {
  const size = 32 * 1024 * 1024
  const answers = [Buffer.alloc(size), Buffer.alloc(size), Buffer.from('short')]
  const ownAnswerRate = { perSecond: size, burst: 4 * size }
  const limits = { maxOwnRequests: 2, maxOwnAnswerBytes: size, ownAnswerRate }
  const { port, ask, world, count } = await start(t, async () => answerOf(answers.shift()), limits)
  world.directory = directoryWithBob
  for (let i = 0; i < 2; i++) {
    const client = await RawClient.open(port)
    t.teardown(() => client.close())
    client.socket.pause()
    client.write(`${post}Content-Length: 0\r\n\r\n`)
    await eventually(() => answers.length === 2 - i)
  }
  t.equal(await (await ask('/echo/state', { headers: asBob })).text(), 'short')
  await eventually(async () => (await count('cut')) === 1)
})

t.test('a GET with a body is refused before it takes a place; the cluster gets it', async (t) => {
  const { port, world, count } = await start(t, async () => answerOf('ok'), { maxOwnRequests: 1 })
  for (const body of [
    'Content-Length: 100000',
    'Transfer-Encoding: chunked',
    'Content-Length: 1\r\nExpect: 100-continue',
  ]) {
    const clients = await Promise.all(Array.from({ length: 3 }, () => RawClient.open(port)))
    for (const client of clients) {
      t.teardown(() => client.close())
      client.write(`${post.replace('POST', 'GET')}${body}\r\n\r\n`)
      t.match(await client.until(/\r\n\r\n/), /^HTTP\/1\.1 400 /, body)
    }
  }
  t.equal(world.requests.length, 0)
  t.ok((await count('TOO_MANY_STREAMS')) <= 0)
  const cluster = await RawClient.open(port)
  t.teardown(() => cluster.close())
  cluster.write(`${post.replace('POST', 'GET').replace('echo/state', 'api/v1/pods')}Content-Length: 4\r\n\r\nbody`)
  t.match(await cluster.until(/\r\n\r\n/), /^HTTP\/1\.1 200 /)
})

t.test('what jobs have taken delays all that their user asks for, whichever project it is in', async (t) => {
  let served = 0
  const serve = async () => {
    served++
    return answerOf(Buffer.alloc(3000))
  }
  const { ask, clock, world } = await start(t, serve, { ownAnswerRate: { perSecond: 1000, burst: 1000 } })
  world.directory = directoryWithBob
  await (await ask('/echo/state')).arrayBuffer()
  const next = ask('/echo/state', { headers: asUserOfJob })
  await eventually(() => clock.pending === 2)
  t.equal(served, 1)
  t.equal((await (await ask('/echo/state', { headers: asBob })).arrayBuffer()).byteLength, 3000)
  clock.advance(10_000)
  t.equal((await (await next).arrayBuffer()).byteLength, 3000)
})

t.test('long answers of one caller do not delay the short ones of another', async (t) => {
  let served = 0
  const serve = async ({ query }: OwnRequest) => {
    served++
    return answerOf(Buffer.alloc(Number(query.get('bytes'))))
  }
  const { ask, clock, world } = await start(t, serve, { ownAnswerRate: { perSecond: 1000, burst: 1000 } })
  world.directory = directoryWithBob
  await (await ask('/echo/state?bytes=100000')).arrayBuffer()
  const second = ask('/echo/state?bytes=100000')
  await eventually(() => clock.pending === 2)
  for (let i = 0; i < 3; i++) {
    t.equal((await (await ask('/echo/state?bytes=10', { headers: asBob })).arrayBuffer()).byteLength, 10)
    clock.advance(20)
  }
  t.equal(served, 4, 'it waits on')
  clock.advance(100_000)
  t.equal((await (await second).arrayBuffer()).byteLength, 100_000)
})
