import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import t, { type Test } from 'tap'
import { coalesceChunks } from '../../../../../../src/kas/servers/kubernetes/http/coalesce-chunks.ts'

/** @param body - bytes on the wire. @returns pieces that the reader gets */
async function send(t: Test, body: string) {
  const server = createServer()
  t.teardown(() => server.closeAllConnections())
  t.teardown(() => server.close())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  const counts: boolean[] = []
  const requested = once(server, 'request')
  server.prependListener('request', (request) => coalesceChunks(request, (isShort) => counts.push(isShort)))
  socket.write(`POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${body}`, 'latin1')
  const [request] = (await requested) as [IncomingMessage]
  const pieces: Buffer[] = []
  const ended = once(request, 'end')
  ended.catch(() => undefined) // a test may end before the body
  request.on('data', (piece) => pieces.push(piece))
  return { pieces, counts, ended, request, text: () => Buffer.concat(pieces).toString('latin1') }
}

const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`
const end = '0\r\n\r\n'

t.test('a body of any chunks comes whole and in order, short ones together', async (t) => {
  const chunks = Array.from({ length: 3000 }, (_, i) => String(i).repeat(i % 100 === 0 ? 2000 : (i % 7) + 1))
  const { pieces, counts, ended, text } = await send(t, `${chunks.map(chunk).join('')}${end}`)
  await ended
  t.equal(text(), chunks.join(''))
  t.ok(pieces.length < 300, `${pieces.length} pieces of 3,000`)
  const shorts = counts.filter(Boolean).length
  t.ok(shorts >= 2970 && shorts < 3000, `${shorts} short ones are counted, and parts of long ones`)
})

t.test('what is not joined is not held up', async (t) => {
  const { pieces, request } = await send(t, `${chunk('a')}${chunk('b'.repeat(64))}${chunk('c')}`)
  while (pieces.length < 3) await once(request, 'data')
  t.strictSame(pieces.map(String), ['a', 'b'.repeat(64), 'c'], 'its end has not come')
})
