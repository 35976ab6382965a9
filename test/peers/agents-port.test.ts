import { on, once } from 'node:events'
import http2 from 'node:http2'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { startAgentsServer } from '../support/agents-server.ts'

// Raw requests at 8150, and stock kas' answers by bytes (doc/reference/captured.md 1, doc/reference/tunnel-protocol.md
// 2.2).

const product = 'gitlab-kas/v18.5.0/test'
const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
/** empty SETTINGS, as grpc-go sends them */
const settings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0])
const settingsFrame = 4

const upgrade = {
  Host: 'kas.test',
  Upgrade: 'websocket',
  Connection: 'Upgrade',
  'Sec-WebSocket-Version': '13',
  'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
  'Sec-WebSocket-Protocol': 'ws-tunnel',
}

/** Sends bytes. @returns the answer, until the server ends, or `enough` */
async function exchange(t: Test, port: number, bytes: string | Buffer, enough: RegExp = /$^/): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  socket.write(bytes)
  let answer = ''
  for await (const chunk of socket) {
    answer += chunk.toString('latin1')
    if (enough.test(answer)) break
  }
  return answer
}

function request(line: string, headers: Record<string, string | undefined>): string {
  const lines = Object.entries(headers).flatMap(([name, value]) => (value === undefined ? [] : [`${name}: ${value}`]))
  return `${[`${line} HTTP/1.1`, ...lines].join('\r\n')}\r\n\r\n`
}

const refusals: Record<string, { status: number; line?: string; headers: Record<string, string | undefined> }> = {
  'no upgrade': { status: 426, headers: { Host: 'kas.test', Connection: 'close' } },
  'an upgrade to something else': { status: 426, headers: { ...upgrade, Upgrade: 'h2c' } },
  'another method': { status: 405, line: 'POST /', headers: upgrade },
  'another method, no upgrade': { status: 405, line: 'PUT /', headers: { Host: 'kas.test', Connection: 'close' } },
  'another version': { status: 400, headers: { ...upgrade, 'Sec-WebSocket-Version': '8' } },
  'no version': { status: 400, headers: { ...upgrade, 'Sec-WebSocket-Version': undefined } },
  'no key': { status: 400, headers: { ...upgrade, 'Sec-WebSocket-Key': undefined } },
  'a key that is none': { status: 400, headers: { ...upgrade, 'Sec-WebSocket-Key': 'short' } },
  'a foreign Origin': { status: 403, headers: { ...upgrade, Origin: 'https://evil.test' } },
  'an Origin that is none': { status: 403, headers: { ...upgrade, Origin: 'null' } },
}

// wire: ws.refusal.426, ws.refusal.405, ws.refusal.400, ws.refusal.403, ws.server
for (const [name, { status, line, headers }] of Object.entries(refusals)) {
  t.test(`${name}: ${status}`, async (t) => {
    const { port } = await startAgentsServer(t)
    const answer = await exchange(t, port, request(line ?? 'GET /-/kubernetes-agent/', headers))
    t.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `))
    t.match(answer, new RegExp(`\r\nserver: ${product}\r\n`, 'i'))
    t.match(answer, /\r\ncontent-type: text\/plain/i)
  })
}

const accepted: Record<string, { path?: string; headers?: Record<string, string> }> = {
  'as a stock agent asks': {},
  'any path, query included': { path: '/some/where?else=1' },
  'an offer of compression': {
    headers: { 'Sec-WebSocket-Extensions': 'permessage-deflate; client_no_context_takeover' },
  },
  'other spellings': { headers: { Upgrade: 'WebSocket', Connection: 'keep-alive, Upgrade' } },
  'a token, as 17.2 sends it': { headers: { Authorization: 'Bearer of no importance' } },
  'an Origin of the same host': { headers: { Origin: 'https://kas.test' } },
}

// wire: ws.path, ws.protocol, ws.extensions, ws.server, ws.authorization
for (const [name, { path = '/', headers = {} }] of Object.entries(accepted)) {
  t.test(`101: ${name}`, async (t) => {
    const { port } = await startAgentsServer(t)
    const answer = await exchange(t, port, request(`GET ${path}`, { ...upgrade, ...headers }), /\r\n\r\n/)
    t.match(answer, /^HTTP\/1\.1 101 /)
    t.match(answer, /\r\nsec-websocket-protocol: ws-tunnel\r\n/i)
    t.match(answer, new RegExp(`\r\nserver: ${product}\r\n`, 'i'))
    t.match(answer, /\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=\r\n/i)
    t.notMatch(answer, /sec-websocket-extensions/i, 'nothing is compressed')
  })
}

// wire: ws.protocol.other
for (const offered of [undefined, 'other']) {
  t.test(`sub-protocol ${offered}: 101 first, then close 1002`, async (t) => {
    const { port } = await startAgentsServer(t)
    const headers = { ...upgrade, 'Sec-WebSocket-Protocol': offered }
    const answer = await exchange(t, port, request('GET /', headers), /got ""/)
    const [head, frame] = answer.split('\r\n\r\n') as [string, string]
    t.match(head, /^HTTP\/1\.1 101 /)
    t.notMatch(head, /sec-websocket-protocol/i)
    const reason = 'expecting "ws-tunnel" subprotocol, got ""'
    const close = Buffer.from([0x88, 2 + reason.length, 1002 >> 8, 1002 & 255])
    t.equal(frame, close.toString('latin1') + reason)
  })
}

// wire: ws.settings, ws.fragments, ws.close
t.test('the first thing said is SETTINGS; messages may be cut anywhere', async (t) => {
  const { port } = await startAgentsServer(t)
  const socket = webSocket(t, port)
  const received = on(socket, 'message')
  await once(socket, 'open')
  for (const byte of Buffer.concat([preface, settings])) socket.send(Buffer.of(byte))
  let bytes: Buffer = Buffer.alloc(0)
  const acknowledgement = Buffer.from([0, 0, 0, settingsFrame, 1])
  while (!bytes.includes(acknowledgement)) {
    bytes = Buffer.concat([bytes, ((await received.next()).value as [Buffer])[0]])
  }
  t.equal(bytes[3], settingsFrame)
  socket.close(1000)
  t.same(await closed(socket), [1000, ''], 'a normal close is echoed')
})

// wire: ws.text
t.test('a text message is an error', async (t) => {
  const { port } = await startAgentsServer(t)
  const socket = webSocket(t, port)
  await once(socket, 'open')
  socket.send(preface.toString())
  const [code] = await closed(socket)
  t.ok(code !== 1000 && code !== 1001, `closed with ${code}`)
})

// wire: ws.size
t.test('a message over 10 MiB is refused', async (t) => {
  const { port } = await startAgentsServer(t)
  const socket = webSocket(t, port)
  await once(socket, 'open')
  socket.send(Buffer.concat([preface, settings, Buffer.alloc(10 * 1024 * 1024)]))
  t.equal((await closed(socket))[0], 1009)
})

// wire: ws.ping
t.test('WebSocket pings are answered', async (t) => {
  const { port } = await startAgentsServer(t)
  const socket = webSocket(t, port)
  await once(socket, 'open')
  socket.ping('are you there')
  const [data] = await once(socket, 'pong')
  t.equal(String(data), 'are you there')
})

// wire: transport.one-port
t.test('the same port speaks gRPC, also when its first bytes come one by one', async (t) => {
  const { port } = await startAgentsServer(t)
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  t.teardown(() => socket.destroy())
  for (const byte of Buffer.concat([preface, settings])) {
    await new Promise((resolve) => socket.write(Buffer.of(byte), resolve))
  }
  const [chunk] = await once(socket, 'data')
  t.equal(chunk[3], settingsFrame)
})

// wire: http2.get
t.test('a plain GET over HTTP/2: 415 and grpc-status 3', async (t) => {
  const { port } = await startAgentsServer(t)
  const session = http2.connect(`http://127.0.0.1:${port}`)
  t.teardown(() => session.destroy())
  const [headers] = await once(session.request({ ':path': '/' }), 'response')
  t.match(headers, { ':status': 415, 'grpc-status': '3' })
})

// wire: transport.websocket-off
t.test('without websocket: HTTP/1.1 gets nothing', async (t) => {
  const { port } = await startAgentsServer(t, { options: { websocket: false } })
  t.equal(await exchange(t, port, request('GET /', upgrade)), '')
})

for (const [name, bytes] of Object.entries({
  'no HTTP at all': '\x16\x03\x01 this is TLS, perhaps\r\n\r\n',
  'a preface that goes wrong at its end': Buffer.concat([preface.subarray(0, 20), Buffer.from('XXXX\r\n\r\n')]),
  'a head without end': `GET / HTTP/1.1\r\nHost: kas.test\r\nX: ${'x'.repeat(200_000)}`,
})) {
  t.test(`${name}: refused, and the port lives`, async (t) => {
    const { port } = await startAgentsServer(t)
    const answer = await exchange(t, port, bytes).catch((error: NodeJS.ErrnoException) => error.code)
    t.match(answer, /^(HTTP\/1\.1 4\d\d .*|ECONNRESET|)/s)
    const socket = webSocket(t, port)
    await once(socket, 'open')
  })
}

function webSocket(t: Test, port: number): WebSocket {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/`, 'ws-tunnel')
  t.teardown(() => socket.terminate())
  return socket
}

async function closed(socket: WebSocket): Promise<[code: number, reason: string]> {
  const [code, reason] = await once(socket, 'close')
  return [code, String(reason)]
}
