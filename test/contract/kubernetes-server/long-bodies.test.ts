import t, { type Test } from 'tap'
import type { OwnAnswer, OwnEndpoint, OwnRequest } from '../../../src/kas/own-endpoint.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { clusterForward, echo } from './fake-cluster.ts'
import { RawClient } from './raw-client.ts'
import { startServer } from './start-server.ts'

/** Endpoints with bounds of their own for a long body, and two endpoints at one path. */

const asJob = { Authorization: 'Bearer ci:42:as-job' }
const limits = { maxBytes: 100_000, minBytesPerSecond: 1000, slackMs: 5000 }

/** Starts a server with an endpoint for GET and one for POST, whose body `read` gets. */
async function start(t: Test, read: (request: OwnRequest) => Promise<string>) {
  const clock = new ManualClock()
  const answer = (text: string): OwnAnswer => ({ status: 200, mediaType: 'text/plain', body: Buffer.from(text) })
  const endpoints: OwnEndpoint[] = [
    { path: '/echo/diff', methods: ['GET'], serve: async ({ method }) => answer(`first ${method}`) },
    { path: '/echo/diff', methods: ['POST'], body: limits, serve: async (request) => answer(await read(request)) },
  ]
  const options = { accessCheckMs: 3_600_000, limits: { maxOwnBodyBytes: 10, ownBodyTimeoutMs: 1 } }
  const started = await startServer(clusterForward(echo), options, undefined, { clock, endpoints })
  t.teardown(() => started.server.stop(AbortSignal.abort()))
  const ask = (init: RequestInit) =>
    fetch(`http://127.0.0.1:${started.port}/k8s-proxy/echo/diff`, { headers: asJob, ...init })
  return { ...started, clock, ask }
}

const lengthOf = async ({ body }: Pick<OwnRequest, 'body'>) => {
  let bytes = 0
  for await (const piece of body) bytes += piece.length
  return `${bytes} bytes`
}

const post = `POST /k8s-proxy/echo/diff HTTP/1.1\r\nHost: kas\r\nAuthorization: ${asJob.Authorization}\r\n`

t.test('two endpoints share a path by their methods, and a third method is told both', async (t) => {
  const { ask } = await start(t, lengthOf)
  t.equal(await (await ask({})).text(), 'first GET')
  t.equal(await (await ask({ method: 'POST', body: 'hello' })).text(), '5 bytes')
  const put = await ask({ method: 'PUT', body: 'x' })
  t.equal(put.status, 405)
  t.equal(put.headers.get('allow'), 'GET, POST')
})

t.test('a body has the bound of its endpoint, whether or not its length is told', async (t) => {
  const { ask } = await start(t, lengthOf)
  const whole = Buffer.alloc(limits.maxBytes)
  const chunked = (...parts: Buffer[]) =>
    ask({ method: 'POST', body: ReadableStream.from(parts), duplex: 'half' } as RequestInit)
  t.equal(await (await ask({ method: 'POST', body: whole })).text(), `${limits.maxBytes} bytes`)
  t.equal(await (await chunked(whole)).text(), `${limits.maxBytes} bytes`)
  t.equal((await chunked(whole, Buffer.from('x'))).status, 413)
  t.equal((await ask({ method: 'POST', body: Buffer.alloc(limits.maxBytes + 1) })).status, 413)
})

/** Sends a body piece by piece; each piece is read, and then time passes. */
async function sent(t: Test, pieces: readonly { readonly bytes: number; readonly ms: number }[]) {
  let arrived = Promise.withResolvers<void>()
  const { port, clock } = await start(t, async ({ body }) => {
    let bytes = 0
    for await (const piece of body) {
      bytes += piece.length
      arrived.resolve()
    }
    return `${bytes} bytes`
  })
  const client = await RawClient.open(port)
  t.teardown(() => client.close())
  const length = pieces.reduce((sum, { bytes }) => sum + bytes, 0)
  client.write(`${post}Content-Length: ${length}\r\nConnection: close\r\n\r\n`)
  for (const { bytes, ms } of pieces) {
    arrived = Promise.withResolvers()
    client.write('x'.repeat(bytes))
    await Promise.race([arrived.promise, client.toEnd()])
    await new Promise(setImmediate) // the next piece is waited for
    clock.advance(ms)
  }
  return await client.toEnd()
}

t.test('a body that comes one byte a second ends once its slack is used up', async (t) => {
  const answer = await sent(t, Array(20).fill({ bytes: 1, ms: 1000 }))
  t.match(answer, /^HTTP\/1\.1 408 /)
  t.match(answer, /The body of the request took too long/)
})

t.test('a body at its rate may take any time', async (t) => {
  const pieces = Array.from({ length: 40 }, () => ({ bytes: 2000, ms: 2000 }))
  t.match(await sent(t, [...pieces.slice(0, -1), { bytes: 2000, ms: 0 }]), /\r\n\r\n80000 bytes$/)
})

t.test('bytes before a pause do not allow a longer one than the slack', async (t) => {
  const answer = await sent(t, [
    { bytes: 50_000, ms: 4999 },
    { bytes: 6000, ms: 5000 },
    { bytes: 1, ms: 0 },
  ])
  t.match(answer, /^HTTP\/1\.1 408 /)
})

t.test('time in which the endpoint does not read does not count', async (t) => {
  const go = Promise.withResolvers<void>()
  const asked = Promise.withResolvers<void>()
  const { ask, clock } = await start(t, async (request) => {
    asked.resolve()
    await go.promise
    return await lengthOf(request)
  })
  const answer = ask({ method: 'POST', body: 'hello' })
  await asked.promise
  clock.advance(60_000)
  go.resolve()
  t.equal(await (await answer).text(), '5 bytes')
})

t.test('the endpoint knows the projects of the caller, and the id of the access log', async (t) => {
  const requests: OwnRequest[] = []
  const { ask } = await start(t, async (request) => {
    requests.push(request)
    return await lengthOf(request)
  })
  await ask({ method: 'POST', body: 'x' })
  await ask({ method: 'POST', body: 'x', headers: { Authorization: 'Bearer pat:42:as-user' } })
  t.match(requests, [
    { who: { userId: 5n, isJob: true, projectIds: [3n] }, id: /^[0-9a-f-]{36}$/ },
    { who: { userId: 5n, isJob: false, projectIds: [] }, id: /^[0-9a-f-]{36}$/ },
  ])
  t.not(requests[0]?.id, requests[1]?.id)
})

t.test('kept bytes count as memory of the caller, who is ended if there is no room', async (t) => {
  const { ask, count } = await start(t, async (request) => {
    request.memory.take(10 * 1024 ** 3)
    return await lengthOf(request)
  })
  const answer = await ask({ method: 'POST', body: 'hello' })
  t.equal(answer.status, 429)
  t.match(await answer.text(), /your calls or those of the agent's project hold most of it/)
  t.equal(await count('REPLICA_MEMORY_FULL'), 1)
})
