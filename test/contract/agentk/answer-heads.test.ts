import { createServer } from 'node:http'
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { apiClient } from '../../support/api-client.ts'
import { listen, startModule, startRaw, startSide } from './api-server.ts'
import { exchange, wholeRequest } from './http-call.ts'

/** Heads that agentk reads. Any pod can answer behind the API server (through services/proxy), so heads are hostile. */

const end = 'Content-Length: 2\r\n\r\nok'
const lines = (count: number) => Array.from({ length: count }, (_, i) => `x-${i}: v\r\n`).join('')
const upgrade = { headers: { Upgrade: 'SPDY/3.1', Connection: 'Upgrade' } }

/** Answers each request with the same bytes. @returns the module under test, and the number of requests */
async function startAnswering(t: Test, answer: (socket: Socket) => void) {
  let asked = 0
  const port = await startRaw(t, (socket) => {
    socket.on('data', () => {
      asked += 1
      answer(socket)
    })
  })
  return { ...startModule(t, port), asked: () => asked }
}

const refused: [what: string, answer: string, text: RegExp][] = [
  [
    '60,000 lines',
    `HTTP/1.1 200 OK\r\n${lines(60_000)}${end}`,
    /is not read: its head has more than (500 lines|65536 bytes)/,
  ],
  ['501 lines', `HTTP/1.1 200 OK\r\n${lines(500)}${end}`, /its head has more than 500 lines/],
  ['a long line', `HTTP/1.1 200 OK\r\nx: ${'v'.repeat(65_536)}\r\n${end}`, /its head has more than 65536 bytes/],
  ['21 informational answers', `${'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(21)}HTTP/1.1 200 OK\r\n${end}`, /than 20/],
]
for (const [what, answer, text] of refused) {
  for (const [kind, init] of [
    ['a request', {}],
    ['an upgrade', upgrade],
  ] as const) {
    t.test(`${what} in the answer to ${kind}: the call fails, and says why`, async (t) => {
      const { api, asked } = await startAnswering(t, (socket) => socket.write(answer))
      const call = exchange(api.forward, wholeRequest(init)).then(
        ({ outcome }) => outcome.error,
        (error) => error,
      )
      t.match(await call, { grpcCode: 14, message: /^gRPC -> HTTP: the answer of the API server/ })
      t.match(await call, { message: text })
      t.equal(asked(), 1, 'it is not asked again')
    })
  }
}

t.test('what is within the limits passes', async (t) => {
  const hints = 'HTTP/1.1 103 Early Hints\r\nx: v\r\n\r\n'.repeat(20)
  for (const head of [lines(499), `x: ${'v'.repeat(60_000)}\r\n`]) {
    const { api } = await startAnswering(t, (socket) => socket.write(`${hints}HTTP/1.1 200 OK\r\n${head}${end}`))
    const { body, outcome } = await exchange(api.forward, wholeRequest())
    t.equal(outcome.error, undefined)
    t.equal(body.toString(), 'ok')
    await exchange(api.forward, wholeRequest(upgrade)).then(({ header }) => t.equal(header.statusCode, 200))
  }
})

t.test('others do not see it: a watch goes on, and the next call is answered', async (t) => {
  const server = createServer((request, response) => {
    if (request.url === '/evil') request.socket.write(`HTTP/1.1 200 OK\r\n${lines(60_000)}${end}`)
    else if (request.url === '/watch') response.write('first')
    else response.end('ok')
  })
  const port = await listen(server)
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { api } = startModule(t, port)
  const watch = exchange(api.forward, wholeRequest({ urlPath: '/watch' }))
  const evil = await Promise.all(
    Array.from({ length: 5 }, () => exchange(api.forward, wholeRequest({ urlPath: '/evil' }))),
  )
  for (const { outcome } of evil) t.equal(outcome.error?.code, 'STATUS')
  const next = await exchange(api.forward, wholeRequest({ urlPath: '/' }))
  t.equal(next.body.toString(), 'ok')
  server.closeAllConnections()
  t.equal((await watch).body.toString(), 'first', 'it was cut by its server, not before')
})

t.test("agentk's own requests are as careful", async (t) => {
  const port = await startRaw(t, (socket) => {
    socket.on('data', () => socket.write(`HTTP/1.1 200 OK\r\n${lines(500)}${end}`))
  })
  const client = apiClient(t, { server: `http://127.0.0.1:${port}` })
  await t.rejects(client.json('GET', '/version'), { code: 'UNREACHABLE', message: /more than 500 lines/ })
})

t.test('a pause that an answer asks for is told', async (t) => {
  const { client } = await startSide(t, ({ url }, response) => {
    if (url === '/busy') response.setHeader('Retry-After', '3')
    response.statusCode = url === '/busy' ? 429 : 200
    response.end('{}')
  })
  t.strictSame(await client.json('GET', '/busy'), { status: 429, body: {}, retryAfterMs: 3000 })
  t.strictSame(await client.json('GET', '/other'), { status: 200, body: {} })
})
