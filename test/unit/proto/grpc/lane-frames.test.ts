import t from 'tap'
import {
  checkMessage,
  decodeCall,
  decodeHeaders,
  encodeCall,
  encodeHeaders,
  endFrame,
  frameKind,
} from '../../../../src/proto/grpc/lane-frames.ts'

const maxBytes = 1000

t.test('a call passes with its method and metadata', async (t) => {
  const frame = encodeCall('/a.B/C', { 'x-one': ['1', ''], 'kas-wait': '0', umlaut: '\u00fc' })
  t.equal(frame[0], frameKind.head)
  t.same(decodeCall(frame, maxBytes), {
    method: '/a.B/C',
    raw: ['x-one', '1', 'x-one', '', 'kas-wait', '0', 'umlaut', '\u00fc'],
  })
})

t.test('headers pass, none too', async (t) => {
  for (const kind of ['head', 'interim', 'trailers'] as const) {
    const frame = encodeHeaders(kind, { 'grpc-status': '0' })
    t.equal(frame[0], frameKind[kind])
    t.same(decodeHeaders(frame, maxBytes), ['grpc-status', '0'])
    t.same(decodeHeaders(encodeHeaders(kind, {}), maxBytes), [])
  }
})

t.test('a method that would be more than one line, or is none, is refused', async (t) => {
  for (const method of ['', 'a.B/C', '/a\r\nkas-agent-id: 1', '/a\u0000', '/\u0100']) {
    t.throws(() => encodeCall(method, {}), { code: 'INVALID_MESSAGE' }, JSON.stringify(method))
  }
})

t.test('what is no call is refused before anything is built of it', async (t) => {
  const large = encodeCall('/a.B/C', { a: 'x'.repeat(maxBytes) })
  const texts = ['\u0001', '\u0001/a.B/C', '\u0001no path\r\n', '\u0001/a.B/C\r\nno line', '\u0001\r\na: b\r\n']
  for (const frame of [large, endFrame, Buffer.alloc(0), ...texts.map((text) => Buffer.from(text, 'latin1'))]) {
    t.throws(() => decodeCall(frame, maxBytes), { code: 'INVALID_MESSAGE' }, frame.subarray(0, 20).toString())
  }
  const lines = (count: number) => Buffer.from(`\u0004${'a: b\r\n'.repeat(count)}`, 'latin1')
  t.equal(decodeHeaders(lines(128), maxBytes).length, 256)
  t.throws(() => decodeHeaders(lines(129), maxBytes), { code: 'INVALID_MESSAGE' })
})

t.test('a message has a bound', async (t) => {
  t.doesNotThrow(() => checkMessage(Buffer.alloc(10), 10))
  t.throws(() => checkMessage(Buffer.alloc(11), 10), { code: 'MESSAGE_TOO_LARGE' })
})
