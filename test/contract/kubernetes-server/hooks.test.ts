import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { hookEndpoint } from '../../../src/kas/modules/repositories/hook-endpoint.ts'
import type { KubernetesLimits } from '../../../src/kas/servers/kubernetes/http/kubernetes-limits.ts'
import { defaultUnauthenticated } from '../../../src/kas/servers/unauthenticated-connections.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { eventually } from '../../support/eventually.ts'
import { hookHeaders } from '../../support/git-hooks.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { startServer } from './start-server.ts'

const secret = 'a secret of the hook'
const path = '/k8s-proxy/hooks/git/7'
const push = Buffer.from('{"ref":"refs/heads/main"}')

/** Project 7 has a secret, project 8 names a missing file, and other projects have none. */
async function start(
  t: Test,
  limits: Partial<KubernetesLimits> = {},
  {
    clock,
    trustedProxies = [],
    hasSecrets = true,
  }: { clock?: ManualClock; trustedProxies?: readonly string[]; hasSecrets?: boolean } = {},
) {
  const folder = await mkdtemp(join(tmpdir(), 'kas-hooks-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const file = join(folder, 'secret')
  await writeFile(file, `${secret}\n`)
  const secrets: [bigint, string][] = [
    [7n, file],
    [8n, join(folder, 'none')],
  ]
  const files = new Map(hasSecrets ? secrets : [])
  const looked: bigint[] = []
  const { log, lines } = capturedLog()
  const endpoint = hookEndpoint({
    hookSecretFile: (projectId) => files.get(projectId),
    someHookSecretFile: () => [...files.values()][0],
    poll: (projectId) => looked.push(projectId),
    clock: new ManualClock(),
    log,
  })
  const started = await startServer(
    async () => {
      throw new Error('no cluster is asked')
    },
    { limits, addresses: { trustedProxies, proxyProtocol: false } },
    undefined,
    { endpoints: [endpoint], ...(clock ? { clock } : {}) },
  )
  t.teardown(() => started.server.stop(AbortSignal.abort()))
  const send = (headers: Record<string, string>, body: Buffer = push, at = path, method = 'POST') =>
    post(started.port, { headers, body, at, method })
  return { ...started, looked, lines, file, send }
}

interface Sent {
  readonly headers: Record<string, string>
  readonly body: Buffer
  readonly at: string
  readonly method: string
}

async function post(port: number, { headers, body, at, method }: Sent) {
  const sent = request({
    port,
    host: '127.0.0.1',
    path: at,
    method,
    headers: { ...headers, 'content-length': body.length },
  })
  sent.on('error', () => undefined) // an answer may come before everything is sent
  sent.end(body)
  const [answer] = await once(sent, 'response')
  const { statusCode } = answer
  return { status: statusCode as number, text: await text(answer) }
}

const hmac = (body: Buffer) => createHmac('sha256', secret).update(body).digest('hex')
const github = (body: Buffer, by = secret) => hookHeaders.github(body, by)
const gitea = (body: Buffer, by = secret) => hookHeaders.gitea(body, by)
const gitlab = (body: Buffer, by = secret) => hookHeaders.gitlab(body, by)
const kinds = { github, gitea, gitlab }

t.test('a hook of GitHub, GitLab and Gitea is taken by its secret, whatever it says', async (t) => {
  const { send, looked } = await start(t)
  for (const [name, headersOf] of Object.entries(kinds)) {
    for (const body of [push, Buffer.from('no JSON \xff'), Buffer.alloc(0)]) {
      const { status } = await send(headersOf(body), body)
      t.equal(status, 202, `${name}: ${body.length} bytes`)
    }
    t.equal(looked.splice(0).length, 3)
  }
  t.equal((await send({ ...gitea(push), ...github(push) })).status, 202, 'as Gitea sends it')
  t.strictSame(looked.splice(0), [7n])
})

t.test('an unsigned hook is refused, and one by another secret, for another body, or cut', async (t) => {
  const { send, looked } = await start(t)
  const wrong: Record<string, string>[] = [
    {},
    { Authorization: `Bearer ${secret}` },
    { 'X-Hub-Signature': `sha1=${createHmac('sha1', secret).update(push).digest('hex')}` },
    { 'X-Hub-Signature-256': hmac(push) },
    { 'X-Hub-Signature-256': 'sha256=' },
    { 'X-Hub-Signature-256': `sha256=${hmac(push).slice(1)}` },
    { 'X-Hub-Signature-256': `sha256=${'é'.repeat(32)}` },
    { 'X-Gitea-Signature': '' },
    { 'X-Gitlab-Token': '' },
    { 'X-Gitlab-Token': secret.slice(1) },
    { 'X-Gitlab-Token': `${secret} ${'x'.repeat(10_000)}` },
    ...Object.values(kinds).map((headersOf) => headersOf(push, 'another secret')),
    github(Buffer.from('another body')),
    gitea(Buffer.from('another body')),
  ]
  for (const headers of wrong) {
    const { status, text } = await send(headers)
    t.equal(status, 401, JSON.stringify(headers).slice(0, 80))
    t.notMatch(text, secret)
  }
  t.strictSame(looked, [])
})

t.test('a hook of a repository nobody has is answered as one by another secret', async (t) => {
  const { send, looked, lines } = await start(t)
  const other = await send(github(push, 'another secret'))
  for (const name of ['9', '8', '0', '-7', '7x', '07', '', '7/7', '99999999999999999999', '%00']) {
    for (const headersOf of Object.values(kinds)) {
      t.same(await send(headersOf(push), push, `/k8s-proxy/hooks/git/${name}`), other, name)
    }
  }
  t.strictSame(looked, [])
  t.match(lines, [{ level: 'warn', project_id: '8', error: { message: 'ENOENT' } }], 'the operator is told once')
  t.equal(lines.length, 1)
})

t.test('whether a repository has hooks does not show in whether a body is read either', async (t) => {
  const { port } = await start(t)
  for (const name of ['7', '8', '9', '0', '7x']) {
    const headers = { ...github(push, 'another secret'), 'content-length': push.length, Expect: '100-continue' }
    const sent = request({ port, host: '127.0.0.1', path: `/k8s-proxy/hooks/git/${name}`, method: 'POST', headers })
    const answered = once(sent, 'response')
    const isRead = Promise.race([once(sent, 'continue').then(() => true), answered.then(() => false)])
    sent.flushHeaders()
    t.equal(await isRead, true, name)
    sent.end(push)
    const [answer] = await answered
    t.equal(answer.statusCode, 401, name)
    answer.resume()
  }
})

t.test('a hook that is sent again is taken again: it says no more than that something may have moved', async (t) => {
  const { send, looked } = await start(t)
  for (let i = 0; i < 3; i++) t.equal((await send(github(push))).status, 202)
  t.strictSame(looked, [7n, 7n, 7n])
})

t.test('a hook of 25 MB is taken; a larger one is refused by its length', async (t) => {
  const { send, looked } = await start(t)
  const body = Buffer.alloc(25 * 1024 * 1024, 'a')
  for (const headersOf of Object.values(kinds)) t.equal((await send(headersOf(body), body)).status, 202)
  t.strictSame(looked, [7n, 7n, 7n])
  const larger = Buffer.alloc(body.length + 1)
  for (const headersOf of Object.values(kinds)) t.equal((await send(headersOf(larger), larger)).status, 413)
  t.equal((await send({}, body)).status, 401, 'unsigned: it is not read')
  t.equal(looked.length, 3)
})

t.test('a body without a length that goes on too long, and one that does not come', async (t) => {
  const { port, looked } = await start(t, { maxSignedBodyBytes: 1000, signedBodyTimeoutMs: 50 })
  const chunked = request({ port, host: '127.0.0.1', path, method: 'POST', headers: github(Buffer.alloc(2000)) })
  chunked.on('error', () => undefined)
  chunked.write(Buffer.alloc(600))
  chunked.write(Buffer.alloc(600))
  const [tooLong] = await once(chunked, 'response')
  t.equal(tooLong.statusCode, 413)
  chunked.destroy()
  const slow = request({
    port,
    host: '127.0.0.1',
    path,
    method: 'POST',
    headers: { ...github(push), 'content-length': 900 },
  })
  slow.on('error', () => undefined)
  slow.write('{')
  const [tooSlow] = await once(slow, 'response')
  t.equal(tooSlow.statusCode, 408)
  slow.destroy()
  t.strictSame(looked, [])
})

t.test('so many bodies are read at once, of one network fewer; others wait for a turn, or are refused', async (t) => {
  const limits = { maxSignedRequests: 2, maxSignedRequestsOfNetwork: 1, maxWaitingSignedRequests: 1 }
  const { port, send, looked } = await start(t, limits)
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  const { 'X-Hub-Signature-256': signature } = github(push)
  const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nX-Hub-Signature-256: ${signature}\r\nContent-Length: ${push.length}\r\n`
  socket.write(`${head}Expect: 100-continue\r\n\r\n`)
  await once(socket, 'data') // it has a turn, and kas waits for its body
  const waiting = send(github(push))
  const refused = await Promise.race([send(github(push)), waiting])
  t.equal(refused.status, 429)
  t.match(refused.text, /Too many signed requests that wait, allowed: 1\./)
  t.strictSame(looked, [])
  socket.write(push)
  await once(socket, 'data')
  const last = await waiting.catch(() => refused)
  t.ok([202, 429].includes(last.status))
  t.ok(looked.length >= 1)
  t.equal((await send(github(push))).status, 202, 'the turn is free again')
})

/** Sends a head as a stranger can. kas then waits for the body. */
async function hold(t: Test, port: number, localAddress: string) {
  const socket = connect({ port, host: '127.0.0.1', localAddress })
  t.teardown(() => socket.destroy())
  socket.on('error', () => undefined)
  const held = { socket, text: '' }
  socket.setEncoding('latin1').on('data', (text) => {
    held.text += text
  })
  await once(socket, 'connect')
  const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nX-Hub-Signature-256: sha256=${'0'.repeat(64)}\r\n`
  socket.write(`${head}Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n`)
  return held
}

/** @param networks - networks whose bodies take all turns; more of their requests wait */
async function attacked(t: Test, networks: readonly string[], { ofNetwork, waiting }: Record<string, number>) {
  const clock = new ManualClock()
  const ground = await start(t, { maxSignedRequests: 16 }, { clock })
  const open = (n = 0) =>
    Promise.all(networks.flatMap((network) => Array.from({ length: n }, () => hold(t, ground.port, network))))
  const held = await open(ofNetwork)
  const turns = () => held.filter(({ text }) => text.includes('100 Continue')).length
  await eventually(() => turns() === 16 || Promise.reject(new Error(`${turns()} turns`)))
  await open(waiting)
  const waits = async (count: number) =>
    await eventually(() => clock.pending === count || Promise.reject(new Error(`${clock.pending} wait`)))
  await waits(networks.length * (waiting ?? 0))
  const hook = ground.send(github(push))
  await waits(networks.length * (waiting ?? 0) + 1)
  const refused = () => held.filter(({ text }) => text.includes(' 429 ')).length
  return { ...ground, clock, hook, refused, waits }
}

t.test('attack: two networks that hold all turns, and wait for more, keep nobody waiting', async (t) => {
  const { clock, hook, refused, looked } = await attacked(t, ['127.0.0.2', '127.0.0.3'], { ofNetwork: 8, waiting: 20 })
  clock.advance(1000)
  t.equal((await hook).status, 202)
  await eventually(() => refused() === 1 || Promise.reject(new Error(`${refused()} refused`)))
  t.strictSame(looked, [7n])
})

t.test('attack: sixteen networks with a turn each', async (t) => {
  const networks = Array.from({ length: 16 }, (_, i) => `127.0.0.${i + 2}`)
  const { clock, hook, refused, looked } = await attacked(t, networks, { ofNetwork: 1, waiting: 2 })
  clock.advance(4000)
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(refused(), 0, 'none has more than its share')
  clock.advance(1000)
  t.equal((await hook).status, 202)
  await eventually(() => refused() > 0 || Promise.reject(new Error('nobody made room')))
  t.strictSame(looked, [7n])
})

const paths = ['7', '8', '9', '0', '7x', ''].map((name) => `/k8s-proxy/hooks/git/${name}`)

/** Sends a head. @returns the answer, and whether kas asked for the body before it */
async function askToSend(port: number, at: string, own: Record<string, string>) {
  const headers = { ...own, 'content-length': push.length, Expect: '100-continue' }
  const sent = request({ port, host: '127.0.0.1', path: at, method: 'POST', headers })
  sent.on('error', () => undefined)
  let isAsked = false
  sent.on('continue', () => {
    isAsked = true
  })
  sent.flushHeaders()
  const [answer] = await once(sent, 'response')
  answer.resume()
  sent.destroy()
  return { status: answer.statusCode, isAsked }
}

t.test('where no project has a secret each hook is refused at once, and no body is read', async (t) => {
  const { port, looked } = await start(t, { maxSignedRequests: 0 }, { hasSecrets: false })
  for (const at of paths) {
    for (const headersOf of Object.values(kinds)) {
      t.strictSame(await askToSend(port, at, headersOf(push)), { status: 401, isAsked: false }, at)
    }
  }
  t.strictSame(looked, [])
})

t.test(
  'another X-Gitlab-Token takes no turn, and its body is not read, whether the project has a secret or none',
  async (t) => {
    const { port, looked } = await start(t, { maxSignedRequests: 0 })
    for (const at of paths) {
      t.strictSame(await askToSend(port, at, gitlab(push, 'another')), { status: 401, isAsked: false }, at)
    }
    t.strictSame(looked, [])
  },
)

for (const [networks, each] of [
  [30, 4],
  [230, 1],
] as const) {
  t.test(`attack: ${networks} addresses with ${each} slow bodies each keep no hook waiting`, async (t) => {
    const { port, send, looked } = await start(t, {}, { clock: new ManualClock() })
    const addresses = Array.from({ length: networks }, (_, i) => `127.0.${1 + Math.floor(i / 200)}.${1 + (i % 200)}`)
    const held = await Promise.all(addresses.flatMap((from) => Array.from({ length: each }, () => hold(t, port, from))))
    const read = () => held.filter(({ text }) => text.includes('100 Continue')).length
    await eventually(() => read() === held.length || Promise.reject(new Error(`${read()} are read`)))
    t.equal((await send(github(push))).status, 202)
    t.strictSame(looked, [7n])
  })
}

t.test('the wait for a turn is part of the time that a body has', async (t) => {
  const clock = new ManualClock()
  const { port, looked } = await start(t, { maxSignedRequestsOfNetwork: 1 }, { clock })
  const begin = () => {
    const headers = { ...github(push), 'content-length': push.length, Expect: '100-continue' }
    const sent = request({ port, host: '127.0.0.1', path, method: 'POST', headers })
    sent.on('error', () => undefined)
    sent.flushHeaders()
    return { sent, answered: once(sent, 'response') }
  }
  const statusOf = async ({ answered }: ReturnType<typeof begin>) => (await answered)[0].statusCode
  const first = begin()
  await once(first.sent, 'continue')
  const second = begin()
  await eventually(() => clock.pending === 1 || Promise.reject(new Error('nobody waits')))
  clock.advance(29_990)
  first.sent.end(push)
  t.equal(await statusOf(first), 202)
  t.equal(await statusOf(second), 408, 'its body had 10 ms')
  t.equal(clock.pending, 0, 'no timer is left behind')

  const holds = begin()
  await once(holds.sent, 'continue')
  const late = begin()
  await eventually(() => clock.pending === 1 || Promise.reject(new Error('nobody waits')))
  clock.advance(30_000)
  t.equal(await statusOf(late), 504)
  holds.sent.end(push)
  t.equal(await statusOf(holds), 202)
  t.strictSame(looked, [7n, 7n])
})

t.test('a hook of a front that gives way to others gives its turn back', async (t) => {
  const unauthenticated = { ...defaultUnauthenticated, maxChecked: 2 }
  const limits = { unauthenticated, maxSignedRequests: 2, maxSignedRequestsOfNetwork: 2, signedBodyTimeoutMs: 300_000 }
  const { port } = await start(t, limits, { trustedProxies: ['127.0.0.1'] })
  const begin = (address: string) => {
    const own = { 'content-length': push.length, Expect: '100-continue', 'X-Forwarded-For': address }
    const headers = { ...github(push), ...own }
    const sent = request({ port, host: '127.0.0.1', path, method: 'POST', headers })
    sent.on('error', () => undefined)
    sent.flushHeaders()
    return { sent, read: once(sent, 'continue'), answered: once(sent, 'response') }
  }
  const [first, second] = [begin('192.0.2.7'), begin('192.0.2.7')]
  await Promise.all([first.read, second.read])
  const other = begin('198.51.100.7')
  const [refused] = await Promise.race([first.answered, second.answered])
  t.equal(refused.statusCode, 429)
  await other.read
  other.sent.end(push)
  t.equal((await other.answered)[0].statusCode, 202)
  for (const { sent } of [first, second]) sent.destroy()
})

t.test('the secret is read anew for each hook', async (t) => {
  const { send, file } = await start(t)
  t.equal((await send(github(push))).status, 202)
  await writeFile(file, 'another secret')
  t.equal((await send(github(push))).status, 401)
  t.equal((await send(github(push, 'another secret'))).status, 202)
  await writeFile(file, 'two\nlines\n')
  t.equal((await send(gitlab(push, 'two\nlines'.split('\n')[0] as string))).status, 401)
  await writeFile(file, '\n')
  t.equal((await send({ 'X-Gitlab-Token': '' })).status, 401, 'an empty file is no secret')
})

t.test('other methods are refused, and pages of other origins', async (t) => {
  const { send, looked } = await start(t)
  for (const method of ['GET', 'PUT', 'DELETE']) t.equal((await send(github(push), push, path, method)).status, 405)
  t.equal((await send({ ...github(push), Origin: 'https://evil.example.com' })).status, 403)
  t.strictSame(looked, [])
})
