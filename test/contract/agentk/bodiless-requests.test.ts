import { METHODS } from 'node:http'
import t, { type Test } from 'tap'
import { encodeHttpRequest } from '../../../src/proto/http/http-over-grpc.ts'
import { startModule, startRaw } from './api-server.ts'
import { callOf, Outgoing, type RequestInit, requestHeader } from './http-call.ts'

/** Tests the exact bytes that agentk writes to the API server for a request without a body. */

/** Methods that 8154 refuses, and a stock kas too. */
const refused = ['CONNECT', 'TRACE']
/** Each method that Node's parser knows, and an unknown one: agentk may be connected to another kas. */
const methods = [...METHODS.filter((method) => !refused.includes(method)), 'FOO']

const switching = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n'
const upgrade = { Upgrade: 'SPDY/3.1', Connection: 'Upgrade' }

interface Said {
  readonly head: string
  /** bytes after the head */
  readonly rest: string
}

/**
 * Returns the bytes that the API server reads until agentk ends the connection. The caller sends `ping` after the
 * upgrade.
 */
async function upgraded(t: Test, init: RequestInit): Promise<Said> {
  const said = Promise.withResolvers<Said>()
  const port = await startRaw(t, (socket) => {
    let bytes = ''
    socket.on('data', (chunk) => {
      const before = bytes.includes('\r\n\r\n')
      bytes += chunk.toString('latin1')
      if (!before && bytes.includes('\r\n\r\n')) socket.write(switching)
    })
    socket.on('end', () => {
      const end = bytes.indexOf('\r\n\r\n')
      said.resolve({ head: bytes.slice(0, end), rest: bytes.slice(end + 4) })
      socket.end()
    })
  })
  const messages = new Outgoing().push(requestHeader(init), encodeHttpRequest.trailer)
  const reply = await startModule(t, port).api.forward(callOf(messages))
  const reading = (async () => {
    for await (const _ of reply.messages);
  })()
  messages.push(encodeHttpRequest.upgradeData(Buffer.from('ping'))).end()
  const result = await said.promise
  await reading
  return result
}

/** Lines of a head that describe the length of a body. */
const lengthsOf = ({ head }: Said) =>
  head.split('\r\n').filter((line) => /^(?:content-length|transfer-encoding|trailer|expect|te):/i.test(line))

// wire: http.connection-upgrade
t.test('an upgrade, whatever its method, has nothing behind its head', async (t) => {
  for (const method of methods) {
    const said = await upgraded(t, { method, headers: upgrade })
    t.equal(said.rest, 'ping', method)
    const lengths = method === 'GET' || method === 'HEAD' ? [] : ['Content-Length: 0']
    t.same(lengthsOf(said), lengths, `${method}: how long its body is`)
    t.match(said.head, new RegExp(`^${method} / HTTP/1\\.1\r\n`))
  }
})

t.test('an upgrade, whatever kas says of its body, has nothing behind its head', async (t) => {
  const lengths: Record<string, RequestInit> = {
    'of 0 bytes': { contentLength: 0 },
    'not said': { contentLength: null },
    'of unknown length': { contentLength: -1 },
    'of a length that does not come': { contentLength: 5 },
    'Content-Length: 0, as kas before 16.0': { contentLength: null, headers: { 'Content-Length': '0' } },
    'Content-Length: 5': { contentLength: null, headers: { 'Content-Length': '5' } },
    'Transfer-Encoding: chunked': { headers: { 'Transfer-Encoding': 'chunked' } },
    Trailer: { headers: { Trailer: 'X-Sum', TE: 'trailers' } },
    'Expect: 100-continue': { headers: { Expect: '100-continue' } },
  }
  for (const [name, init] of Object.entries(lengths)) {
    for (const method of ['GET', 'POST']) {
      const said = await upgraded(t, { ...init, method, headers: { ...upgrade, ...init.headers } })
      t.equal(said.rest, 'ping', `${method}, ${name}`)
      t.same(lengthsOf(said), method === 'GET' ? [] : ['Content-Length: 0'], `${method}, ${name}`)
    }
  }
})

t.test('a plain request without a body, whatever its method, has nothing behind its head', async (t) => {
  for (const method of methods) {
    for (const contentLength of [0, null]) {
      const said = Promise.withResolvers<string>()
      const port = await startRaw(t, (socket) => {
        let bytes = ''
        socket.on('data', (chunk) => {
          bytes += chunk.toString('latin1')
          if (bytes.includes('\r\n\r\n')) socket.end('HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n')
        })
        socket.on('end', () => said.resolve(bytes))
      })
      const messages = new Outgoing().push(requestHeader({ method, contentLength }), encodeHttpRequest.trailer).end()
      const reply = await startModule(t, port).api.forward(callOf(messages))
      for await (const _ of reply.messages);
      const bytes = await said.promise
      t.ok(bytes.endsWith('\r\n\r\n') && bytes.indexOf('\r\n\r\n') === bytes.length - 4, `${method}: ${bytes.length}`)
      t.notMatch(bytes, /\r\ntransfer-encoding:/i, method)
    }
  }
})
