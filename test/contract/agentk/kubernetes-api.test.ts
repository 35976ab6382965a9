import { randomBytes } from 'node:crypto'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { KasError } from '../../../src/lib/errors.ts'
import { encodeHttpRequest } from '../../../src/proto/http/http-over-grpc.ts'
import { listen, startModule, startRaw, startSide } from './api-server.ts'
import { callOf, decodeMessage, exchange, headerValues, Outgoing, requestHeader, wholeRequest } from './http-call.ts'

// wire: http.via.agent, http.via.answer, http.query, http.hop-by-hop
t.test('a GET passes with its path, query, headers and Via', async (t) => {
  const { api } = await startSide(
    t,
    (request, response) => {
      response.setHeader('Set-Cookie', ['a=1', 'b=2'])
      response.setHeader('Warning', '299 - "old"')
      response.setHeader('X-Seen', JSON.stringify([request.method, request.url, request.rawHeaders]))
      response.end('hello')
    },
    { token: { text: 'secret' } },
  )
  const answer = await exchange(
    api.forward,
    wholeRequest({
      urlPath: '/api/v1/pods/a b%',
      query: [
        ['watch', ['1']],
        ['labelSelector', ['a=b,c in (d)']],
      ],
      headers: { Accept: 'application/json', Authorization: 'Bearer stolen', Via: 'HTTP/1.1 gitlab-kas/v1/x' },
    }),
  )
  t.equal(answer.header.statusCode, 200)
  t.equal(answer.header.status, '200 OK')
  t.equal(answer.body.toString(), 'hello')
  t.same(answer.kinds, ['header', 'data', 'trailer'])
  t.same(headerValues(answer.header, 'Set-Cookie'), ['a=1', 'b=2'])
  t.same(headerValues(answer.header, 'Warning'), ['299 - "old"'])
  t.same(headerValues(answer.header, 'Via'), ['1.1 gitlab-agent/v0.0.0/test'])
  t.notOk(headerValues(answer.header, 'Connection'))
  t.notOk(headerValues(answer.header, 'Keep-Alive'))
  t.notOk(headerValues(answer.header, 'Transfer-Encoding'))
  t.equal(answer.outcome.error, undefined)
  const [method, url, raw] = JSON.parse(headerValues(answer.header, 'X-Seen')?.[0] ?? '')
  t.equal(method, 'GET')
  t.equal(url, '/api/v1/pods/a%20b%25?labelSelector=a%3Db%2Cc+in+%28d%29&watch=1')
  const seen = pairs(raw)
  t.same(seen.get('authorization'), ['Bearer secret'])
  t.same(seen.get('via'), ['HTTP/1.1 gitlab-kas/v1/x', 'gRPC/1.0 gitlab-agent/v0.0.0/test'])
  t.same(seen.get('accept'), ['application/json'])
  t.equal(seen.has('content-length'), false)
})

t.test('the query as its caller wrote it, also a long one, and the head of 1 MiB', async (t) => {
  const { api } = await startSide(t, (request, response) => response.end(request.url))
  const path = '/api/v1/namespaces/t/services/web/proxy/'
  const asked = async (rawQuery: string | undefined, query: [string, string[]][] = [['a', ['1']]]) => {
    const header = { method: 'GET', urlPath: path, query, header: [], contentLength: 0 }
    const message = encodeHttpRequest.header(rawQuery === undefined ? header : { ...header, rawQuery })
    return (await exchange(api.forward, new Outgoing().push(message, encodeHttpRequest.trailer).end())).body.toString()
  }
  for (const query of ['wsdl', 'b=2&a=1', 'a=1;b=2', 'a=x%20y', '&&', 'command=x&'.repeat(100_000)])
    t.equal(await asked(query), `${path}?${query}`)
  t.equal(await asked(''), path)
  t.equal(await asked(undefined), `${path}?a=1`, 'a kas of GitLab sends none')
  const words = Array.from({ length: 100_000 }, () => 'x')
  t.equal(await asked(undefined, [['command', words]]), `${path}?${words.map(() => 'command=x').join('&')}`)
})

t.test('bodies keep their form: length, chunks, none', async (t) => {
  const { api } = await startSide(t, async (request, response) => {
    const body = await text(request)
    const { 'content-length': length = '-', 'transfer-encoding': encoding = '-' } = request.headers
    response.end(`${request.method} ${length} ${encoding} ${body}`)
  })
  const send = async (init: Parameters<typeof wholeRequest>[0], ...body: string[]) =>
    (await exchange(api.forward, wholeRequest(init, ...body))).body.toString()
  t.equal(await send({ method: 'POST', contentLength: 10 }, 'hello', 'world'), 'POST 10 - helloworld')
  t.equal(await send({ method: 'POST', contentLength: -1 }, 'he', 'llo'), 'POST - chunked hello')
  t.equal(await send({ method: 'DELETE', contentLength: 2 }, '{}'), 'DELETE 2 - {}')
  t.equal(await send({ method: 'DELETE' }), 'DELETE - - ')
  t.equal(await send({ method: 'POST' }), 'POST 0 - ')
  // kas before 16.0 does not send the length
  const untold = new Outgoing().push(
    encodeHttpRequest.header({ method: 'PUT', urlPath: '/', query: [], header: [] }),
    encodeHttpRequest.data(Buffer.from('abc')),
    encodeHttpRequest.trailer,
  )
  t.equal((await exchange(api.forward, untold.end())).body.toString(), 'PUT - chunked abc')
  const empty = new Outgoing().push(
    encodeHttpRequest.header({ method: 'GET', urlPath: '/', query: [], header: [] }),
    encodeHttpRequest.trailer,
  )
  t.equal((await exchange(api.forward, empty.end())).body.toString(), 'GET - - ')
})

t.test('a request without a body is made before its trailer comes', async (t) => {
  const { api } = await startSide(t, (_, response) => void response.end('early'))
  const messages = new Outgoing().push(requestHeader())
  const reply = await api.forward(callOf(messages))
  const first = await reply.messages[Symbol.asyncIterator]().next()
  t.equal(decodeMessage(first.value as Uint8Array).kind, 'header')
  messages.push(encodeHttpRequest.trailer).end()
  t.equal((await reply.done).error, undefined)
})

// wire: http.length.0.data
t.test('a body that the header ruled out ends the request with Internal', async (t) => {
  const closed = Promise.withResolvers<void>()
  const messages = new Outgoing().push(requestHeader())
  const { api } = await startSide(t, (request) => {
    request.socket.on('close', () => closed.resolve())
    messages.push(encodeHttpRequest.data(Buffer.from('surprise')), encodeHttpRequest.trailer).end()
  })
  const answer = await exchange(api.forward, messages)
  t.equal(answer.outcome.error?.grpcCode, 13)
  await closed.promise
})

t.test('watch events come one by one, as they are flushed', async (t) => {
  const next = Promise.withResolvers<void>()
  const { api } = await startSide(t, async (_, response) => {
    response.write('one\n')
    await next.promise
    response.end('two\n')
  })
  const reply = await api.forward(callOf(wholeRequest({ query: [['watch', ['1']]] })))
  const messages = reply.messages[Symbol.asyncIterator]()
  const read = async () => {
    const message = decodeMessage((await messages.next()).value as Uint8Array)
    return message.kind === 'data' ? Buffer.from(message.data).toString() : message.kind
  }
  t.equal(await read(), 'header')
  t.equal(await read(), 'one\n')
  next.resolve()
  t.equal(await read(), 'two\n')
  t.equal(await read(), 'trailer')
})

t.test('a body cut in the middle ends with an error and without a trailer', async (t) => {
  const port = await startRaw(t, (socket) => {
    socket.once('data', () => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf')
      setImmediate(() => socket.destroy())
    })
  })
  const { api } = startModule(t, port)
  const answer = await exchange(api.forward, wholeRequest())
  t.equal(answer.header.statusCode, 200)
  t.notOk(answer.kinds.includes('trailer'))
  t.equal(answer.outcome.error?.grpcCode, 14)
  t.match(answer.outcome.error?.message, /^gRPC -> HTTP: /)
})

t.test('a cut chunked body is an error too', async (t) => {
  const port = await startRaw(t, (socket) => {
    socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n'))
  })
  const answer = await exchange(startModule(t, port).api.forward, wholeRequest())
  t.notOk(answer.kinds.includes('trailer'))
  t.equal(answer.outcome.error?.grpcCode, 14)
})

t.test('a GET over a kept connection that the server has just closed is sent again, a POST is not', async (t) => {
  const requests: string[] = []
  // each connection answers one GET as if it were kept, and closes on any other request
  const port = await startRaw(t, (socket) => {
    let count = 0
    socket.on('data', (data) => {
      const method = data.toString().split(' ')[0] as string
      requests.push(method)
      count += 1
      if (count === 1 && method === 'GET') socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
      else socket.destroy()
    })
  })
  const { api } = startModule(t, port)
  t.equal((await exchange(api.forward, wholeRequest())).body.toString(), 'ok')
  await nextTurn() // the connection is free again in the next turn of the event loop
  t.equal((await exchange(api.forward, wholeRequest())).body.toString(), 'ok')
  await nextTurn()
  t.same(requests, ['GET', 'GET', 'GET'])
  const failed = await exchange(api.forward, wholeRequest({ method: 'POST', contentLength: 1 }, 'x'))
  t.equal(failed.outcome.error?.grpcCode, 14)
  t.equal(requests.filter((each) => each === 'POST').length, 1)
  await nextTurn()
  const toPod = () => wholeRequest({ urlPath: '/api/v1/namespaces/a/pods/b/proxy', query: [['wait', ['1']]] })
  t.equal((await exchange(api.forward, toPod())).outcome.error?.grpcCode, undefined)
  await nextTurn()
  t.equal((await exchange(api.forward, toPod())).outcome.error?.grpcCode, 14, 'it may act: not sent again')
})

t.test('a server that is restarting is waited for, whatever the method', async (t) => {
  const probe = createServer()
  const port = await listen(probe)
  await new Promise((resolve) => probe.close(resolve))
  const { api } = startModule(t, port)
  const refused = nextRefusedDial(t)
  const answer = exchange(api.forward, wholeRequest({ method: 'POST', contentLength: 5 }, 'hello'))
  const late = createServer(async (request, response) => void response.end(`got ${await text(request)}`))
  t.teardown(() => {
    late.closeAllConnections()
    late.close()
  })
  await refused
  await new Promise<void>((resolve) => late.listen(port, '127.0.0.1', resolve))
  t.equal((await answer).body.toString(), 'got hello')
})

// wire: error.http.unavailable
t.test('an unreachable server is Unavailable, before any header', async (t) => {
  const probe = createServer()
  const port = await listen(probe)
  await new Promise((resolve) => probe.close(resolve))
  const { api } = startModule(t, port, {}, { dialPatienceMs: 0 })
  const answer = await exchange(api.forward, wholeRequest())
  t.same(answer.kinds, [])
  t.equal(answer.outcome.error?.grpcCode, 14)
  t.match(answer.outcome.error?.message, /^gRPC -> HTTP: .*ECONNREFUSED/)
})

// wire: error.http.cancelled
t.test('a cancelled call ends its request', async (t) => {
  const gone = Promise.withResolvers<void>()
  const { api } = await startSide(t, (_, response) => {
    response.write('first')
    response.on('close', gone.resolve)
  })
  const controller = new AbortController()
  const reply = await api.forward(callOf(wholeRequest(), controller.signal))
  const messages = reply.messages[Symbol.asyncIterator]()
  await messages.next()
  controller.abort(new KasError({ code: 'CANCELLED' }))
  await gone.promise
  t.equal((await reply.done).error?.grpcCode, 1)
  while (!(await messages.next()).done);
})

t.test('a reader that leaves ends its request', async (t) => {
  const gone = Promise.withResolvers<void>()
  const { api } = await startSide(t, (_, response) => {
    response.write('first')
    response.on('close', gone.resolve)
  })
  const reply = await api.forward(callOf(wholeRequest()))
  for await (const _ of reply.messages) break
  await gone.promise
})

t.test('a reader that stops holds a bounded amount', async (t) => {
  let written = 0
  const blocked = Promise.withResolvers<void>()
  const { api } = await startSide(t, (_, response) => {
    const chunk = Buffer.alloc(64 * 1024, 'x')
    const fill = () => {
      while (written < 64 * 1024 * 1024) {
        written += chunk.length
        if (!response.write(chunk)) return void response.once('drain', fill)
      }
      response.end()
    }
    fill()
    const watch = (before: number) =>
      setTimeout(() => (written === before ? blocked.resolve() : watch(written)), 200).unref()
    watch(-1)
  })
  const reply = await api.forward(callOf(wholeRequest()))
  await blocked.promise
  t.ok(written < 32 * 1024 * 1024, `the server could write ${written} bytes, most of them into socket buffers`)
  let read = 0
  for await (const bytes of reply.messages) {
    const message = decodeMessage(bytes)
    if (message.kind === 'data') read += message.data.length
  }
  t.equal(read, 64 * 1024 * 1024)
})

t.test('an answer arrives whole, whose server closes while its caller writes on', async (t) => {
  const said = randomBytes(100_000)
  const gone = Promise.withResolvers<void>()
  const port = await startRaw(t, (socket) => {
    socket.on('close', () => gone.resolve())
    socket.once('data', () => {
      socket.write(`HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: ${said.length}\r\n\r\n`)
      socket.write(said, () => socket.destroy())
    })
  })
  const { api } = startModule(t, port)
  const body = encodeHttpRequest.data(Buffer.alloc(1000))
  const messages = new Outgoing().push(requestHeader({ method: 'POST', contentLength: -1 }), body)
  const reply = await api.forward(callOf(messages))
  await gone.promise
  const received: Buffer[] = []
  let status = 0
  for await (const bytes of reply.messages) {
    const message = decodeMessage(bytes)
    if (message.kind === 'header') status = message.header.statusCode
    if (message.kind === 'data') received.push(Buffer.from(message.data))
    messages.push(body)
    await nextTurn() // the data is written, and refused
  }
  t.equal(status, 413)
  t.equal((await reply.done).error, undefined)
  t.ok(Buffer.concat(received).equals(said), `${Buffer.concat(received).length} bytes`)
})

t.test('a large upload streams, and an early refusal passes', async (t) => {
  const { api } = await startSide(t, async (request, response) => {
    if (request.url === '/refuse') {
      response.writeHead(413, { Connection: 'close' }).end('too large')
      return
    }
    let bytes = 0
    for await (const chunk of request) bytes += (chunk as Buffer).length
    response.end(String(bytes))
  })
  const megabyte = 'y'.repeat(1024 * 1024)
  const all = await exchange(
    api.forward,
    wholeRequest({ method: 'PUT', contentLength: -1 }, ...Array(8).fill(megabyte)),
  )
  t.equal(all.body.toString(), String(8 * 1024 * 1024))
  const slow = new Outgoing().push(requestHeader({ method: 'PUT', urlPath: '/refuse', contentLength: -1 }))
  slow.push(encodeHttpRequest.data(Buffer.from('begin')))
  const refused = await exchange(api.forward, slow)
  t.equal(refused.header.statusCode, 413)
  t.equal(refused.body.toString(), 'too large')
  slow.push(encodeHttpRequest.trailer).end()
})

t.test('a body that breaks off breaks the request', async (t) => {
  const aborted = Promise.withResolvers<void>()
  const { api } = await startSide(t, (request) => void request.on('error', () => aborted.resolve()).resume())
  const messages = (async function* () {
    yield requestHeader({ method: 'POST', contentLength: -1 })
    yield encodeHttpRequest.data(Buffer.from('half'))
    throw new KasError({ code: 'CANCELLED' })
  })()
  const answer = await exchange(api.forward, messages)
  t.ok(answer.outcome.error)
  await aborted.promise
})

t.test('an expired token is read again, and the request repeated', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'agentk-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'token')
  writeFileSync(file, 'old\n')
  let valid = 'Bearer old'
  const refusals: string[] = []
  const { api } = await startSide(
    t,
    (request, response) => {
      if (request.headers.authorization === valid) return void response.end('welcome')
      refusals.push(request.headers.authorization ?? '')
      response.writeHead(401).end('no')
    },
    { token: { file } },
  )
  t.equal((await exchange(api.forward, wholeRequest())).body.toString(), 'welcome')
  valid = 'Bearer newer'
  writeFileSync(file, 'newer\n')
  t.equal((await exchange(api.forward, wholeRequest())).body.toString(), 'welcome')
  t.same(refusals, ['Bearer old'])
  valid = 'Bearer none'
  t.equal((await exchange(api.forward, wholeRequest())).header.statusCode, 401, 'unchanged: the 401 passes')
  t.equal(refusals.length, 2)
})

t.test('HEAD and 304 have no body, and keep the connection', async (t) => {
  let connections = 0
  const { api, server } = await startSide(t, (request, response) => {
    if (request.method === 'GET') response.writeHead(304)
    else response.setHeader('Content-Length', 5)
    response.end()
  })
  server.on('connection', () => (connections += 1))
  const head = await exchange(api.forward, wholeRequest({ method: 'HEAD' }))
  t.same(headerValues(head.header, 'Content-Length'), ['5'])
  t.same(head.kinds, ['header', 'trailer'])
  await nextTurn()
  t.equal((await exchange(api.forward, wholeRequest())).header.status, '304 Not Modified')
  await nextTurn()
  t.equal((await exchange(api.forward, wholeRequest({ method: 'HEAD' }))).header.statusCode, 200)
  t.equal(connections, 1)
})

t.test('header values keep their bytes', async (t) => {
  const { api } = await startSide(t, (request, response) => {
    response.setHeader('X-Back', request.headers['x-there'] as string)
    response.end()
  })
  const bytes = Buffer.from('grüße').toString('latin1')
  const answer = await exchange(api.forward, wholeRequest({ headers: { 'X-There': bytes } }))
  t.same(headerValues(answer.header, 'X-Back'), [bytes])
})

t.test('a header that HTTP does not allow fails the call alone', async (t) => {
  const { api } = await startSide(t, (_, response) => void response.end('fine'))
  const bad = await exchange(api.forward, wholeRequest({ headers: { 'X-Bad': 'a\r\nInjected: b' } }))
  t.equal(bad.outcome.error?.grpcCode, 14)
  t.equal((await exchange(api.forward, wholeRequest())).body.toString(), 'fine')
})

/** Resolves when a connection that begins from now on is refused. */
function nextRefusedDial(t: Test): Promise<void> {
  return new Promise((resolve) => {
    const onSocket = (message: unknown) => {
      const { socket } = message as { socket: Socket }
      socket.once('error', (error: NodeJS.ErrnoException) => error.code === 'ECONNREFUSED' && resolve())
    }
    subscribe('net.client.socket', onSocket)
    t.teardown(() => unsubscribe('net.client.socket', onSocket))
  })
}

function pairs(raw: IncomingMessage['rawHeaders']): Map<string, string[]> {
  const map = new Map<string, string[]>()
  for (let i = 0; i < raw.length; i += 2) {
    const name = (raw[i] as string).toLowerCase()
    map.set(name, [...(map.get(name) ?? []), raw[i + 1] as string])
  }
  return map
}
