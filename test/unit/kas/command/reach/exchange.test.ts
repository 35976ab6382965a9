import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { exchange } from '../../../../../src/kas/command/reach/exchange.ts'
import { systemClock } from '../../../../../src/lib/clock.ts'

/** Bodies that are sent as they are read. */

async function start(t: Test, listener: RequestListener) {
  const server = createServer(listener)
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/k8s-proxy/`)
  const endpoint = { url, named: '', agentId: '42', authorization: 'x', tls: {}, clock: systemClock, warn: () => {} }
  return (body: Readable, signal = new AbortController().signal) =>
    exchange(
      endpoint,
      { method: 'POST', path: '/gitops/diff?a=b', upload: { mediaType: 'application/x-tar', open: () => body } },
      { signal },
    )
}

/** A body without an end. */
function endless(): Readable {
  return new Readable({
    read() {
      this.push(Buffer.alloc(64 * 1024))
    },
  })
}

t.test('the body is sent with its type, and the answer is read', async (t) => {
  const send = await start(t, async (request, response) => {
    const { length } = await buffer(request)
    response.writeHead(422).end(`${request.url} ${request.headers['content-type']} ${length}`)
  })
  const body = Readable.from([Buffer.alloc(100_000), Buffer.alloc(5)])
  t.match(await send(body), { status: 422, body: '/k8s-proxy/gitops/diff?a=b application/x-tar 100005' })
})

t.test('the signal ends an exchange with a server that reads nothing', async (t) => {
  const body = endless()
  const send = await start(t, () => undefined)
  const controller = new AbortController()
  const sent = send(body, controller.signal)
  body.once('data', () => controller.abort(new Error('the time is over')))
  await t.rejects(sent)
  if (!body.destroyed) await once(body, 'close')
  t.ok(body.destroyed)
})

t.test('an error of the body ends the exchange', async (t) => {
  const send = await start(t, (request) => void request.resume())
  const body = new Readable({
    read() {
      this.destroy(new Error('a file has changed'))
    },
  })
  await t.rejects(send(body), { message: 'a file has changed' })
})

t.test('an answer before the end of the body ends the upload', async (t) => {
  const send = await start(t, (request, response) => {
    request.resume()
    response.writeHead(400).end('too large')
  })
  const body = endless()
  t.match(await send(body), { status: 400, body: 'too large' })
  if (!body.destroyed) await once(body, 'close')
  t.ok(body.destroyed)
})
