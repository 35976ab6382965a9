import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { frontCheckProtocol } from '../../../src/kas/servers/front-check-answer.ts'
import type { KubernetesServerOptions } from '../../../src/kas/servers/kubernetes/kubernetes-server.ts'
import { startServer } from './start-server.ts'

/** Answers to `kas doctor` on 8154, and the callers that get one. */

const instances = ['12D3KooWone', '12D3KooWtwo']
const good = `Bearer front:${instances[0]}`
const path = '/k8s-proxy/front-check'

async function start(t: Test, options: Partial<KubernetesServerOptions> = {}) {
  const refuse = async () => {
    throw new Error('no cluster is asked')
  }
  const started = await startServer(refuse, options, undefined, { isReplica: (id) => instances.includes(id) })
  t.teardown(() => started.server.stop(AbortSignal.abort()))
  const get = async (authorization: string | undefined, init: RequestInit = {}) => {
    const headers = { ...init.headers, ...(authorization && { authorization }) } as Record<string, string>
    const answer = await fetch(`http://127.0.0.1:${started.port}${path}`, { ...init, headers })
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> }
  }
  const open = (authorization = good, protocol = frontCheckProtocol) => {
    const socket = new WebSocket(`ws://127.0.0.1:${started.port}${path}`, [protocol], { headers: { authorization } })
    t.teardown(() => socket.terminate())
    return socket
  }
  return { ...started, get, open }
}

t.test('who names no replica of this kas is refused', async (t) => {
  const { get, open } = await start(t)
  const [one = ''] = instances
  const refused = {
    'of another kas': 'Bearer front:12D3KooWthree',
    'that is cut': good.slice(0, -1),
    'with more behind it': `${good}0`,
    'of another scheme': `Bearer ${one}`,
    'of two replicas': `Bearer front:${instances.join()}`,
    'of nothing': 'Bearer front:',
    'that is none': 'Bearer ci:42:good',
  }
  for (const [name, authorization] of Object.entries(refused)) {
    const { status, body } = await get(authorization)
    t.equal(status, 401, name)
    t.match(body.message, 'no replica of this kas has the id that kas doctor has sent', name)
  }
  const { status, body } = await get(undefined)
  t.equal(status, 401)
  t.match(body.message, 'front check: there is no Authorization header')
  t.notMatch(JSON.stringify(body), /127\.0\.0\.1|bytes/, 'strangers learn nothing of the way')
  const socket = open('Bearer front:none')
  const [error] = await once(socket, 'error')
  t.match(error, { message: /401/ })
})

t.test('each replica of this kas may be named', async (t) => {
  const { get } = await start(t)
  for (const instance of instances) t.equal((await get(`Bearer front:${instance}`)).status, 200)
})

t.test('how a request came is answered', async (t) => {
  const { get } = await start(t, { addresses: { trustedProxies: ['127.0.0.1'], proxyProtocol: false } })
  const direct = { client: '127.0.0.1', sender: '127.0.0.1', isTrusted: true, isForwarded: false, bytes: 0 }
  t.strictSame(await get(good), { status: 200, body: direct })
  const forwarded = await get(good, { headers: { 'X-Forwarded-For': '192.0.2.7' } })
  t.strictSame(forwarded.body, { ...direct, client: '192.0.2.7', isForwarded: true })
  const posted = await get(good, { method: 'POST', body: Buffer.alloc(2_000_000) })
  t.equal(posted.body.bytes, 2_000_000)
  t.equal((await get(good, { method: 'POST', body: Buffer.alloc(4_194_305) })).status, 413)
  t.equal((await get(good, { method: 'DELETE' })).status, 405)
})

t.test('messages of a WebSocket come back, and no more are open than a few, which keep no request out', async (t) => {
  const { open, get } = await start(t)
  const sockets = Array.from({ length: 32 }, () => open())
  await Promise.all(sockets.map((socket) => once(socket, 'open')))
  const [first] = sockets as [WebSocket]
  first.send('ä')
  const [data] = await once(first, 'message')
  t.equal(String(data), 'ä')
  t.equal((await get(good)).status, 200)
  const [refused] = await once(open(), 'error')
  t.match(refused, { message: /429/ })
  first.send('x'.repeat(1025))
  const [code] = await once(first, 'close')
  t.equal(code, 1009, 'a long message is not kept')
  await once(open(), 'open')
  sockets[1]?.close()
  await once(sockets[1] as WebSocket, 'close')
  const [error] = await once(open(good, 'other'), 'error')
  t.match(error, { message: /426|400/ }, 'another protocol')
})

t.test('no more requests run than a few, which keep no WebSocket out', async (t) => {
  const { open, get, port } = await start(t)
  const slow = Array.from({ length: 33 }, () => {
    const headers = { authorization: good, 'Content-Length': '2' }
    const asked = request({ port, host: '127.0.0.1', path, method: 'POST', headers, agent: false })
    asked.on('error', () => undefined).write('1')
    t.teardown(() => asked.destroy())
    return asked
  })
  const first = await Promise.race(slow.map(async (asked) => (await once(asked, 'response'))[0] as IncomingMessage))
  t.equal(first.statusCode, 429)
  t.match(await get(good), { status: 429, body: { message: /requests that check a front/ } })
  await once(open(), 'open')
})

t.test('a replica that leaves closes them', async (t) => {
  const { open, server } = await start(t)
  const socket = open()
  await once(socket, 'open')
  const closed = once(socket, 'close')
  await server.stop()
  await closed
})
