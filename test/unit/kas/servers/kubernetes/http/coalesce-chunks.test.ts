import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import t, { type Test } from 'tap'
import { coalesceChunks } from '../../../../../../src/kas/servers/kubernetes/http/coalesce-chunks.ts'
import { eventually } from '../../../../../support/eventually.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

/** @param body - bytes on the wire. @returns pieces that the reader gets */
async function send(t: Test, body: string, clock = new ManualClock()) {
  const server = createServer()
  t.teardown(() => server.closeAllConnections())
  t.teardown(() => server.close())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  const requested = once(server, 'request')
  server.prependListener('request', (request) => coalesceChunks(request, clock))
  socket.write(`POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${body}`, 'latin1')
  const [request] = (await requested) as [IncomingMessage]
  const pieces: Buffer[] = []
  const ended = once(request, 'end')
  ended.catch(() => undefined) // a test may end before the body
  request.on('data', (piece) => pieces.push(piece))
  return { pieces, ended, request, clock, text: () => Buffer.concat(pieces).toString('latin1') }
}

const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`
const end = '0\r\n\r\n'

t.test('a body of any chunks comes whole and in order, short ones together', async (t) => {
  const chunks = Array.from({ length: 3000 }, (_, i) => String(i).repeat(i % 100 === 0 ? 2000 : (i % 7) + 1))
  const { pieces, ended, text } = await send(t, `${chunks.map(chunk).join('')}${end}`)
  await ended
  t.equal(text(), chunks.join(''))
  t.ok(pieces.length < 300, `${pieces.length} pieces of 3,000`)
})

t.test('what is not joined is not held up', async (t) => {
  const { pieces, request } = await send(t, `${chunk('a')}${chunk('b'.repeat(64))}${chunk('c')}`)
  while (pieces.length < 3) await once(request, 'data')
  t.strictSame(pieces.map(String), ['a', 'b'.repeat(64), 'c'], 'its end has not come')
})

t.test('attack: single bytes without end are read no faster than 10,000 a second', async (t) => {
  const count = 300_000
  const { pieces, ended, clock, text } = await send(t, `${chunk('a').repeat(count)}${end}`)
  const bytes = () => pieces.reduce((sum, { length }) => sum + length, 0)
  /** chunks that a socket can bring at once: 64 KiB of six bytes each */
  const atOnce = 11_000
  let whole = false
  void ended.then(() => {
    whole = true
  })
  for (let seconds = 0; !whole; seconds++) {
    await eventually(() => whole || clock.pending > 0 || Promise.reject(new Error('it is read on')))
    const allowed = 10_000 * seconds + atOnce
    t.ok(bytes() <= allowed, `${bytes()} after ${seconds} s`)
    clock.advance(1000)
  }
  t.equal(text(), 'a'.repeat(count))
  t.ok(pieces.length < 200, `${pieces.length} pieces`)
})

t.test('attack: the first single bytes of a connection wait, too: who connects again gains nothing', async (t) => {
  const { pieces, clock, text } = await send(t, chunk('a').repeat(2000))
  await eventually(() => clock.pending > 0 || pieces.length > 0)
  t.equal(pieces.length, 0)
  clock.advance(1000)
  await eventually(() => text() === 'a'.repeat(2000))
})
