import t from 'tap'
import { decodeTrailers, encodeTrailers, trailersFlag } from '../../../../src/proto/grpc/body-trailers.ts'
import { Deframer, framePrefix } from '../../../../src/proto/grpc/frames.ts'

const lines = (text: string) => Buffer.from(text, 'latin1')

function frame(payload: Buffer, flag = 0): Buffer {
  return Buffer.concat([framePrefix(payload.length, flag), payload])
}

t.test('trailers pass, repeated and empty values too', async (t) => {
  const bytes = encodeTrailers({ 'grpc-status': '0', 'grpc-message': '', 'kas-tunnel': ['ready', 'none: really'] })
  t.same(decodeTrailers(bytes), [
    'grpc-status',
    '0',
    'grpc-message',
    '',
    'kas-tunnel',
    'ready',
    'kas-tunnel',
    'none: really',
  ])
  t.same(decodeTrailers(encodeTrailers({})), [])
})

t.test('what an agent says stays one trailer', async (t) => {
  const forged = { x: 'a\r\nkas-error-bin: e30=', y: 'b\u010d\u010akas-tunnel: none', z: 'c\nd', ok: '\u00fc \t~' }
  const named = { 'a\r\nkas-tunnel': 'none', 'a b': 'x', Upper: 'x' }
  t.same(decodeTrailers(encodeTrailers({ ...forged, ...named })), ['ok', '\u00fc \t~'])
})

t.test('what is no line is refused', async (t) => {
  for (const text of ['grpc-status', 'grpc-status: 0', 'grpc-status\r\nx: y\r\n', '\r\n']) {
    t.throws(() => decodeTrailers(lines(text)), { code: 'INVALID_MESSAGE' }, JSON.stringify(text))
  }
})

t.test('the frame of trailers is no message, and the last', async (t) => {
  const seen: string[] = []
  const take = (kind: string) => (bytes: Uint8Array) => void seen.push(`${kind} ${Buffer.from(bytes).toString()}`)
  const all = Buffer.concat([frame(lines('hello')), frame(lines('a: b\r\n'), trailersFlag)])
  const deframer = new Deframer(100, () => undefined, take('trailers'))
  for (const byte of all) deframer.push(Buffer.from([byte]), take('message'))
  t.same(seen, ['message hello', 'trailers a: b\r\n'])
  t.throws(() => deframer.push(frame(lines('more')), take('message')), { code: 'INVALID_MESSAGE' })
  t.throws(() => new Deframer(100, () => undefined).push(all, take('message')), { code: 'INVALID_MESSAGE' })
})
