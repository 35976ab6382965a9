import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { ServeReply } from '../../../src/agentk/tunnels/serve.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { encodeHttpRequest } from '../../../src/proto/http/http-over-grpc.ts'
import { startModule, startRaw, startSide } from './api-server.ts'
import { callOf, decodeMessage, exchange, headerValues, Outgoing, requestHeader, wholeRequest } from './http-call.ts'

const upgradeRequest = { headers: { Upgrade: 'SPDY/3.1', Connection: 'Upgrade', 'X-Stream-Protocol-Version': 'v4' } }
const data = (text: string) => encodeHttpRequest.upgradeData(Buffer.from(text))

/** Reads the bytes of the upgraded connection. */
async function* upgradeData(messages: ServeReply['messages']): AsyncGenerator<string> {
  for await (const bytes of messages) {
    const message = decodeMessage(bytes)
    if (message.kind === 'upgradeData') yield Buffer.from(message.data).toString()
  }
}

// wire: http.connection-upgrade
t.test('bytes pass both ways after 101, those that came with it first', async (t) => {
  const { api, server } = await startSide(t, () => t.fail('no plain request'))
  const seen = Promise.withResolvers<string[]>()
  server.on('upgrade', (request, socket: Socket, head) => {
    seen.resolve(request.rawHeaders)
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nhello ')
    if (head.length > 0) socket.write(head)
    socket.on('data', (chunk) => socket.write(`<${chunk.toString()}>`))
    socket.on('end', () => socket.end('bye'))
  })
  const messages = new Outgoing().push(requestHeader(upgradeRequest), encodeHttpRequest.trailer)
  const reply = await api.forward(callOf(messages))
  const first = await reply.messages[Symbol.asyncIterator]().next()
  const header = decodeMessage(first.value as Uint8Array)
  if (header.kind !== 'header') throw new Error('no header')
  t.equal(header.header.statusCode, 101)
  t.same(headerValues(header.header, 'Upgrade'), ['SPDY/3.1'])
  t.same(headerValues(header.header, 'Connection'), ['upgrade'])
  const raw = await seen.promise
  t.equal(raw[raw.indexOf('Connection') + 1], 'upgrade')
  t.equal(raw[raw.indexOf('Upgrade') + 1], 'SPDY/3.1')
  t.equal(raw[raw.indexOf('X-Stream-Protocol-Version') + 1], 'v4')
  t.notOk(raw.includes('Transfer-Encoding'))
  const bytes = upgradeData(reply.messages)
  t.equal((await bytes.next()).value, 'hello ')
  messages.push(data('ping'))
  t.equal((await bytes.next()).value, '<ping>')
  messages.end() // the caller half-closes; bytes from the server still pass
  t.equal((await bytes.next()).value, 'bye')
  t.equal((await bytes.next()).done, true)
  t.equal((await reply.done).error, undefined)
})

t.test('the server ends first', async (t) => {
  const { api, server } = await startSide(t, () => undefined)
  server.on('upgrade', (_, socket: Socket) => {
    socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nlast')
  })
  const messages = new Outgoing().push(requestHeader(upgradeRequest), encodeHttpRequest.trailer)
  const answer = await exchange(api.forward, messages)
  t.same(answer.kinds, ['header', 'trailer', 'upgradeData'])
  t.equal(answer.body.toString(), 'last')
  t.equal(answer.outcome.error, undefined)
  messages.push(data('too late')).end()
})

t.test('what the server said before it closed arrives whole, though its caller writes on', async (t) => {
  const { api, server } = await startSide(t, () => undefined)
  const said = randomBytes(100_000)
  const gone = Promise.withResolvers<void>()
  server.on('upgrade', (_, socket: Socket) => {
    socket.on('error', () => undefined).on('close', () => gone.resolve())
    socket.resume() // reads until it closes, as an API server does
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n')
    socket.write(said, () => socket.destroy())
  })
  const messages = new Outgoing().push(requestHeader(upgradeRequest), encodeHttpRequest.trailer)
  const reply = await api.forward(callOf(messages))
  await gone.promise
  const received: Buffer[] = []
  for await (const bytes of reply.messages) {
    const message = decodeMessage(bytes)
    if (message.kind === 'upgradeData') received.push(Buffer.from(message.data))
    messages.push(data('its window grows'))
    await new Promise(setImmediate) // the data is written, and refused
  }
  t.ok(Buffer.concat(received).equals(said), `${Buffer.concat(received).length} bytes`)
})

// wire: http.upgrade.refused
t.test('a refused upgrade is an ordinary answer', async (t) => {
  const { api, server } = await startSide(t, () => undefined)
  server.on('upgrade', (_, socket: Socket) => {
    socket.end('HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}')
  })
  const answer = await exchange(api.forward, wholeRequest(upgradeRequest))
  t.equal(answer.header.status, '403 Forbidden')
  t.same(answer.kinds, ['header', 'data', 'trailer'])
  t.equal(answer.body.toString(), '{}')
  t.equal(answer.outcome.error, undefined)
})

t.test('a connection that is reset after 101 ends with an error', async (t) => {
  const { api, server } = await startSide(t, () => undefined)
  server.on('upgrade', (_, socket: Socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n')
    socket.once('data', () => socket.resetAndDestroy())
  })
  const messages = new Outgoing().push(requestHeader(upgradeRequest), encodeHttpRequest.trailer, data('x'))
  const answer = await exchange(api.forward, messages)
  t.equal(answer.outcome.error?.grpcCode, 14)
})

t.test('a cancelled call closes the upgraded connection', async (t) => {
  const { api, server } = await startSide(t, () => undefined)
  const closed = Promise.withResolvers<void>()
  server.on('upgrade', (_, socket: Socket) => {
    socket.on('end', () => closed.resolve()).on('error', () => closed.resolve())
    socket.resume()
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n')
  })
  const controller = new AbortController()
  const messages = new Outgoing().push(requestHeader(upgradeRequest), encodeHttpRequest.trailer)
  const reply = await api.forward(callOf(messages, controller.signal))
  controller.abort(new KasError({ code: 'CANCELLED' }))
  await closed.promise
  t.equal((await reply.done).error?.grpcCode, 1)
})

t.test('a call cancelled while the server has not answered ends the dial', async (t) => {
  const asked = Promise.withResolvers<Socket>()
  const port = await startRaw(t, (socket) => socket.once('data', () => asked.resolve(socket)))
  const controller = new AbortController()
  const messages = new Outgoing().push(requestHeader(upgradeRequest), encodeHttpRequest.trailer)
  const reply = startModule(t, port).api.forward(callOf(messages, controller.signal))
  const closed = asked.promise.then((socket) => new Promise<void>((resolve) => socket.resume().on('end', resolve)))
  await asked.promise
  controller.abort(new KasError({ code: 'CANCELLED' }))
  await t.rejects(reply, { code: 'CANCELLED' })
  await closed
})

t.test('a server that closes without an answer is Unavailable, before any header', async (t) => {
  const port = await startRaw(t, (socket) => socket.once('data', () => socket.destroy()))
  const messages = new Outgoing().push(requestHeader(upgradeRequest), encodeHttpRequest.trailer)
  await t.rejects(exchange(startModule(t, port).api.forward, messages), { grpcCode: 14, message: /^gRPC -> HTTP: / })
})

t.test('an upgrade refused with 401 is asked again with a newer token', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'agentk-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'token')
  writeFileSync(file, 'old')
  const tokens: string[] = []
  const { api, server, client } = await startSide(t, () => undefined, { token: { file } })
  client.access.authorization() // reads the token, which is then good for a second
  writeFileSync(file, 'newer')
  server.on('upgrade', (request, socket: Socket) => {
    tokens.push(request.headers.authorization ?? '')
    if (tokens.length === 1) socket.end('HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n')
    else socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nin')
  })
  const messages = new Outgoing().push(requestHeader(upgradeRequest), encodeHttpRequest.trailer)
  t.equal((await exchange(api.forward, messages)).body.toString(), 'in')
  t.same(tokens, ['Bearer old', 'Bearer newer'])
})
