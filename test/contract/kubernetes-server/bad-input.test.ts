import t from 'tap'
import { maxPipelinedRequests } from '../../../src/kas/servers/kubernetes/http/connection.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { eventually } from '../../support/eventually.ts'
import { clusterForward, data, echo, head, trailer } from './fake-cluster.ts'
import { RawClient } from './raw-client.ts'
import { good, startServer } from './start-server.ts'

/** Malformed and hostile requests: each costs its own call, is refused clearly, and is counted. */

type Tap = typeof t | import('tap').Test
async function setUp(t: Tap, forward = clusterForward(echo), options: Parameters<typeof startServer>[1] = {}) {
  const started = await startServer(forward, options)
  t.teardown(() => started.server.stop(AbortSignal.abort()))
  const open = async () => {
    const client = await RawClient.open(started.port)
    t.teardown(() => client.close())
    return client
  }
  return { ...started, open }
}

const post = `POST /k8s-proxy/ HTTP/1.1\r\nHost: kas\r\n${good}\r\n`
const get = `GET /k8s-proxy/ HTTP/1.1\r\nHost: kas\r\n${good}\r\n`
const malformed: Record<string, string> = {
  'two lengths': `${post}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd`,
  'two equal lengths': `${post}Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc`,
  'a list of lengths': `${post}Content-Length: 3, 3\r\n\r\nabc`,
  'a signed length': `${post}Content-Length: +3\r\n\r\nabc`,
  'length and chunked': `${post}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  'chunked and length': `${post}Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n`,
  'a space before the colon': `${post}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n`,
  'chunked twice removed': `${post}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n`,
  'another coding': `${post}Transfer-Encoding: gzip\r\n\r\nabc`,
  'a folded line': `${get}X-A: b\r\n c\r\n\r\n`,
  'bare LF': `GET /k8s-proxy/ HTTP/1.1\nHost: kas\n${good}\n\n`,
  'one bare LF': `${get}X-A: b\nX-B: c\r\n\r\n`,
  'one bare CR': `${get}X-A: b\rX-B: c\r\n\r\n`,
  'NUL in a value': `${get}X-A: b\0c\r\n\r\n`,
  'a name with a space': `${get}X A: b\r\n\r\n`,
  'an unknown version': `GET /k8s-proxy/ HTTP/1.2\r\nHost: kas\r\n\r\n`,
  'HTTP/2': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  TLS: '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
  'a byte that is no ASCII': `GET /k8s-proxy/\xff HTTP/1.1\r\nHost: kas\r\n\r\n`,
  'a relative target': 'GET k8s-proxy HTTP/1.1\r\nHost: kas\r\n\r\n',
}

// wire: error.malformed
t.test('what is no HTTP', async (t) => {
  const { open, count, port } = await setUp(t)
  for (const [name, bytes] of Object.entries(malformed)) {
    const client = await RawClient.open(port)
    const text = await client.write(bytes).toEnd()
    t.match(text, /^HTTP\/1\.1 400 Bad Request\r\n/, name)
    t.match(text, /\r\nContent-Type: application\/json\r\n(?:.+\r\n)*Connection: close\r\n/, name)
    t.match(
      text,
      /"kind":"Status".*"message":"GitLab Agent Server: Bad request: .+"reason":"BadRequest","code":400}\n$/,
      name,
    )
    t.equal(text.match(/HTTP\/1\.1/g)?.length, 1, 'one answer')
    client.close()
  }
  t.equal(await count('BAD_REQUEST'), Object.keys(malformed).length)
  t.equal(await count('answered'), 0)
  const client = await open()
  t.match(await client.request('GET /k8s-proxy/', good).until(/}$/), /^HTTP\/1\.1 200 /, 'others are served')
})

t.test('what is HTTP, but not for us', async (t) => {
  const { open } = await setUp(t)
  const cases: Record<string, string> = {
    'no Host': `GET /k8s-proxy/ HTTP/1.1\r\n${good}\r\n\r\n`,
    'two Hosts': `${get}Host: other\r\n\r\n`,
    'a coding under chunked': `${post}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
    'chunked in HTTP/1.0': `POST /k8s-proxy/ HTTP/1.0\r\n${good}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    'HTTP/0.9': 'GET /k8s-proxy/\r\n\r\n',
    'HTTP/2.0': `GET /k8s-proxy/ HTTP/2.0\r\nHost: kas\r\n${good}\r\n\r\n`,
    'a fragment': `GET /k8s-proxy/#a HTTP/1.1\r\nHost: kas\r\n${good}\r\n\r\n`,
    'a length over 2^53': `${post}Content-Length: 18446744073709551614\r\n\r\nabc`,
  }
  for (const [name, bytes] of Object.entries(cases)) {
    const client = await open()
    t.match(await client.write(bytes).until(/"code":400}\n$/), /^HTTP\/1\.1 400 Bad Request\r\n/, name)
    client.close()
  }
})

t.test('bodies with bad chunks are no success, and the call is cancelled', async (t) => {
  const reasons: unknown[] = []
  let called = Promise.withResolvers<void>()
  const forward = clusterForward(async function* ({ call, body }) {
    call.signal.addEventListener('abort', () => reasons.push(call.signal.reason))
    called.resolve()
    await body()
    yield head(200)
    yield trailer
  })
  const { open, count } = await setUp(t, forward)
  const chunks = ['zz\r\nabc\r\n', '3\r\nabcd\r\n', '3\nabc\n0\n\n', 'fffffffffffffffff\r\nabc\r\n', '-1\r\n']
  for (const [i, chunk] of chunks.entries()) {
    const client = await open()
    called = Promise.withResolvers()
    client.write(`${post}Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n`)
    await called.promise // an earlier end would find no call
    client.write(chunk)
    t.match(await client.toEnd(), /^HTTP\/1\.1 400 Bad Request\r\n/, JSON.stringify(chunk))
    t.equal(reasons.length, i + 1)
    t.ok(reasons[i] instanceof KasError)
  }
  t.equal(await count('BAD_REQUEST'), chunks.length)
  t.equal(await count('answered'), 0)
})

t.test('attack: a body of single bytes costs the cluster few messages, and is whole', async (t) => {
  const sizes: number[] = []
  const forward = clusterForward(async function* ({ messages }) {
    for (let next = await messages.next(); !next.done; next = await messages.next())
      if (next.value.kind === 'data') sizes.push(next.value.data.length)
    yield head(200)
    yield trailer
  })
  const { open } = await setUp(t, forward)
  const client = await open()
  const count = 8000
  client.write(`${post}Transfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(count)}0\r\n\r\n`)
  await client.until(/^HTTP\/1\.1 200 /)
  const bytes = sizes.reduce((sum, size) => sum + size, 0)
  t.equal(bytes, count)
  t.ok(sizes.length < 40, `${sizes.length} messages`)
})

t.test('a client that leaves in the middle of its body', async (t) => {
  const reasons: KasError[] = []
  let begun = Promise.withResolvers<void>()
  const forward = clusterForward(async function* ({ call, messages, body }) {
    call.signal.addEventListener('abort', () => reasons.push(call.signal.reason))
    await messages.next()
    begun.resolve()
    await body()
    yield head(200)
  })
  const { open, count } = await setUp(t, forward)
  for (const coding of ['Content-Length: 10', 'Transfer-Encoding: chunked']) {
    for (const leave of ['destroy', 'resetAndDestroy', 'end'] as const) {
      reasons.length = 0
      begun = Promise.withResolvers()
      const client = await open()
      client.write(`${post}${coding}\r\n\r\n${coding.endsWith('chunked') ? 'a\r\n' : ''}abc`)
      await begun.promise
      client.socket[leave]()
      await eventually(() => {
        if (reasons.length !== 1) throw new Error(`${reasons.length} aborts`)
      })
      t.ok(reasons[0] instanceof KasError, `${coding}, ${leave}`)
    }
  }
  await eventually(async () => {
    if ((await count('left')) !== 6) throw new Error('not counted yet')
  })
  t.equal(await count('answered'), 0)
})

t.test('a malformed request after a good one on the same connection', async (t) => {
  const answer = Promise.withResolvers<void>()
  const forward = clusterForward(async function* () {
    await answer.promise
    yield head(200, [['Content-Length', ['2']]])
    yield data('ok')
    yield trailer
  })
  const { open, count } = await setUp(t, forward)
  const client = await open()
  client.write(`${get}\r\nnonsense\r\n\r\n`)
  await eventually(async () => {
    if ((await count('BAD_REQUEST')) !== 1) throw new Error('not seen yet')
  })
  answer.resolve()
  const text = await client.toEnd()
  t.match(text, /^HTTP\/1\.1 200 OK\r\n(?:.+\r\n)*Connection: close\r\n(?:.+\r\n)*\r\nok$/, 'the good one is answered')
})

t.test('a refused upload: the answer arrives, the body is not kept', async (t) => {
  const { open } = await setUp(t)
  const client = await open()
  client.request('POST /k8s-proxy/', 'Content-Length: 100000').write('x'.repeat(50_000))
  const text = await client.until(/"code":401}\n$/)
  t.match(text, /\r\nConnection: close\r\n/)
  client.write('x'.repeat(50_000))
  await client.toEnd()
  t.equal(client.ended, 'end', 'closed in order')
  const endless = await open()
  endless.request('POST /k8s-proxy/', 'Transfer-Encoding: chunked')
  await endless.until(/"code":401}\n$/)
  const timer = setInterval(() => endless.write(`10000\r\n${'x'.repeat(65_536)}\r\n`), 1)
  t.teardown(() => clearInterval(timer))
  await endless.toEnd()
  clearInterval(timer)
  t.pass('an endless body is cut')
})

t.test('100-continue', async (t) => {
  const { open } = await setUp(t)
  const accepted = await open()
  accepted.request('POST /k8s-proxy/', good, 'Expect: 100-continue', 'Content-Length: 3')
  t.equal(await accepted.until(/\r\n\r\n$/), 'HTTP/1.1 100 Continue\r\n\r\n')
  const text = await accepted.write('abc').until(/}$/)
  t.match(text, /"body":"abc"/)
  t.notMatch(text, /"Expect"/)
  const refused = await open()
  refused.request('POST /k8s-proxy/', 'Expect: 100-continue', 'Content-Length: 3')
  t.match(await refused.toEnd(), /^HTTP\/1\.1 401 /, 'the body is never asked for')
})

t.test('more requests on one connection than it may have open', async (t) => {
  let running = 0
  const forward = clusterForward(async function* ({ call }) {
    running++
    call.signal.addEventListener('abort', () => running--)
    await new Promise(() => undefined)
    yield trailer
  })
  const { open } = await setUp(t, forward)
  const client = await open()
  client.write(`${get}\r\n`.repeat(maxPipelinedRequests))
  await eventually(() => {
    if (running !== maxPipelinedRequests) throw new Error(`${running} run`)
  })
  t.equal(client.ended, undefined)
  t.equal(await client.write(`${get}\r\n`).toEnd(), '')
  await eventually(() => {
    if (running !== 0) throw new Error(`${running} run`)
  })
})

t.test(
  'connections that never say what they want: the longest silent makes room, those that have asked stay',
  async (t) => {
    const unauthenticated = { maxIdlePerAddress: 3, maxIdle: 10, maxChecked: 10, graceMs: 0, maxSilenceMs: 60_000 }
    const { open, count } = await setUp(t, clusterForward(echo), { limits: { unauthenticated } })
    const known = await open()
    await known.write(`${get}\r\n`).until(/}$/)
    const silent = []
    for (let i = 0; i < 3; i++) silent.push((await open()).write('GET /k8s-proxy/ HTTP/1.1\r\nX-Endless: '))
    const late = await open()
    t.equal(await (silent[0] as (typeof silent)[0]).toEnd(), '')
    await late.write(`${get}\r\n`).until(/}$/)
    known.text = ''
    await known.write(`${get}\r\n`).until(/}$/)
    t.same(
      silent.map(({ ended }) => ended !== undefined),
      [true, false, false],
    )
    t.equal(await count('HEAD_TOO_SLOW'), 1)
  },
)

t.test('a connection is unauthenticated until a caller on it was let in: no other answer is enough', async (t) => {
  const unauthenticated = { maxIdlePerAddress: 3, maxIdle: 10, maxChecked: 10, graceMs: 0, maxSilenceMs: 60_000 }
  const { open, count } = await setUp(t, clusterForward(echo), { limits: { unauthenticated } })
  const known = await open()
  await known.write(`${get}\r\n`).until(/}$/)
  const page = 'Origin: https://gitlab.example.com\r\nAccess-Control-Request-Method: GET'
  const preflight = `OPTIONS /k8s-proxy/api HTTP/1.1\r\nHost: kas\r\n${page}\r\n\r\n`
  const firsts: [request: string, status: string][] = [
    [`${get.replace('ci:42:good', 'ci:42:made-up')}\r\n`, '401'],
    ['GET /elsewhere HTTP/1.1\r\nHost: kas\r\n\r\n', '400'],
    [preflight, '200'],
  ]
  const strangers = []
  for (const [request, status] of firsts) {
    const stranger = await open()
    strangers.push(stranger)
    const answer = await stranger.write(request).until(/^HTTP.*\r\n/)
    t.equal(answer.split(' ')[1], status)
    stranger.write('GET /k8s-proxy/ HTTP/1.1\r\nX-Endless: ')
  }
  for (let i = 0; i < 3; i++) await (await open()).write(preflight).until(/^HTTP/)
  if (!t.equal(await count('HEAD_TOO_SLOW'), 3)) return
  for (const stranger of strangers) await stranger.toEnd()
  known.text = ''
  await known.write(`${get}\r\n`).until(/}$/)
  t.equal(known.ended, undefined)
})

t.test('of one agent\u2019s callers only so many connections are kept: the longest idle makes room', async (t) => {
  const { open, count } = await setUp(t, clusterForward(echo), { limits: { maxKeptPerAgent: 2 } })
  const ask = async () => {
    const client = await open()
    await client.write(`${get}\r\n`).until(/}$/)
    return client
  }
  const [first, second] = [await ask(), await ask()]
  first.text = ''
  await first.write(`${get}\r\n`).until(/}$/)
  await ask()
  await second.toEnd()
  t.equal(first.ended, undefined, 'it was used since')
  t.equal(await count('TOO_MANY_STREAMS'), 1)
  first.close()
})

t.test('the same of those who are let in for what is about no agent', async (t) => {
  const answer = { status: 200, mediaType: 'application/json', body: Buffer.from('{}') }
  const user = { id: 5n, username: 'ada' }
  const { server, port, count } = await startServer(
    clusterForward(echo),
    { limits: { maxKeptPerAgent: 2 } },
    undefined,
    {
      endpoints: [
        { path: '/agents', methods: ['GET'], admit: async () => ({ user, answer: async () => answer }) },
        { path: '/hooks/', methods: ['POST'], open: async () => async () => answer },
      ],
    },
  )
  t.teardown(() => server.stop(AbortSignal.abort()))
  const ask = async (requestLine: string) => {
    const client = await RawClient.open(port)
    t.teardown(() => client.close())
    await client.request(requestLine, 'Authorization: Bearer pat:0:token').until(/}$/)
    return client
  }
  const first = await ask('GET /k8s-proxy/agents')
  await ask('POST /k8s-proxy/hooks/1')
  await ask('GET /k8s-proxy/agents')
  await first.toEnd()
  t.equal(await count('TOO_MANY_STREAMS'), 1)
})
