import t from 'tap'
import { FrameReader, maxWebSocketMessageBytes } from '../../../../src/proto/grpc/frame-reader.ts'
import { applyMask } from '../../../../src/proto/grpc/masks.ts'

function start({ masked = false } = {}) {
  const payloads: Buffer[] = []
  const controls: Buffer[] = []
  const events = { payload: (bytes: Buffer) => payloads.push(bytes), control: (bytes: Buffer) => controls.push(bytes) }
  return { reader: new FrameReader(events, { masked }), payloads, controls }
}

/** @param mask - four bytes */
function frame(flagsAndOpcode: number, payload: Buffer, mask?: Buffer): Buffer {
  const { length } = payload
  const [short, lengthBytes] = length < 126 ? [length, 0] : length < 65_536 ? [126, 2] : [127, 8]
  const size = Buffer.alloc(1 + lengthBytes)
  size[0] = short | (mask ? 0x80 : 0)
  if (lengthBytes === 2) size.writeUInt16BE(length, 1)
  if (lengthBytes === 8) size.writeUIntBE(length, 3, 6)
  const masked = Buffer.from(payload)
  if (mask) applyMask(masked, mask)
  return Buffer.concat([Buffer.of(flagsAndOpcode), size, mask ?? Buffer.alloc(0), masked])
}

const [binary, begin, middle, end, ping, close] = [0x82, 0x02, 0x00, 0x80, 0x89, 0x88]
const mask = Buffer.of(9, 8, 7, 6)

for (const masked of [false, true]) {
  t.test(`frames of any size, cut anywhere${masked ? ', masked' : ''}`, (t) => {
    const key = masked ? mask : undefined
    const texts = [0, 1, 125, 126, 65_535, 65_536, 70_000].map((bytes) => Buffer.alloc(bytes, 'what it carries'))
    const stream = Buffer.concat([
      ...texts.map((text) => frame(binary, text, key)),
      frame(begin, Buffer.from('one '), key),
      frame(ping, Buffer.from('between'), key),
      frame(middle, Buffer.alloc(0), key),
      frame(middle, Buffer.from('message '), key),
      frame(end, Buffer.from('in fragments'), key),
    ])
    const expected = Buffer.concat([...texts, Buffer.from('one message in fragments')])
    for (const step of [1, 2, 3, 7, 1000, 16_384, stream.length]) {
      const { reader, payloads, controls } = start({ masked })
      const bytes = Buffer.from(stream) // a copy, because the reader unmasks in place
      for (let at = 0; at < bytes.length; at += step) reader.read(bytes.subarray(at, at + step))
      t.ok(Buffer.concat(payloads).equals(expected), `by ${step}`)
      t.ok(Buffer.concat(controls).equals(frame(ping, Buffer.from('between'), key)), 'a PING as it came')
    }
    t.end()
  })
}

t.test('what is carried is a view of what was read; a control frame is not', (t) => {
  const { reader, payloads, controls } = start()
  const read = Buffer.concat([frame(ping, Buffer.from('ping')), frame(binary, Buffer.from('payload'))])
  reader.read(read)
  read.fill('x')
  t.same([String(payloads[0]), String(controls.at(-1))], ['xxxxxxx', 'ping'])
  t.end()
})

t.test('a frame is passed on as it comes, and nothing of it is kept', (t) => {
  const { reader, payloads } = start()
  const whole = frame(binary, Buffer.alloc(maxWebSocketMessageBytes))
  reader.read(whole.subarray(0, 1000))
  t.equal(payloads[0]?.length, 990)
  const piece = whole.subarray(1000, 2000)
  reader.read(piece)
  t.equal(payloads[1], piece)
  t.end()
})

t.test('what small frames of one chunk carry is passed on in one piece, large ones from where they lie', (t) => {
  const key = Buffer.of(1, 2, 3, 4)
  const { reader, payloads } = start({ masked: true })
  const letters = [...'abcdefgh'].map((letter) => Buffer.from(letter))
  const small = letters.flatMap((letter) => [frame(binary, letter, key), frame(ping, Buffer.alloc(0), key)])
  const large = frame(binary, Buffer.alloc(5000, 'large'), key)
  const chunk = Buffer.concat([...small, large, ...small, large.subarray(0, 100)])
  reader.read(chunk)
  t.same(
    payloads.map(({ length }) => length),
    [8, 5000 + 8 + 92],
  )
  t.ok(
    Buffer.concat(payloads).equals(
      Buffer.from(`abcdefgh${'large'.repeat(1000)}abcdefgh${'large'.repeat(19)}`.slice(0, 5108)),
    ),
  )
  t.ok(payloads.every(({ buffer }) => buffer === chunk.buffer))
  t.end()
})

t.test('what follows the frame Close is dropped', (t) => {
  const { reader, payloads, controls } = start()
  const closing = frame(close, Buffer.of(3, 232))
  reader.read(Buffer.concat([closing, frame(binary, Buffer.from('too late'))]))
  reader.read(frame(ping, Buffer.alloc(0)))
  t.same([payloads, Buffer.concat(controls)], [[], closing])
  t.end()
})

const short = Buffer.from('payload')
const tooLong = Buffer.from([binary, 127, 0, 0, 0, 0, 0, 0xa0, 0, 1])
const faults: [what: string, code: number, bytes: Buffer, masked?: boolean][] = [
  ['a text', 1003, frame(0x81, short)],
  ['the beginning of a text', 1003, frame(0x01, short)],
  ['a reserved bit', 1002, frame(binary | 0x40, short)],
  ['an opcode without a meaning', 1002, frame(0x83, short)],
  ['the end of a message that has not begun', 1002, frame(end, short)],
  ['a message inside a message', 1002, Buffer.concat([frame(begin, short), frame(binary, short)])],
  ['a mask of a server', 1002, frame(binary, short, mask)],
  ['no mask of a client', 1002, frame(binary, short), true],
  ['more than 10 MiB', 1009, tooLong],
  ['more than a number can say', 1009, Buffer.from([binary, 127, ...Buffer.alloc(8, 255)])],
]
for (const [what, closeCode, bytes, masked = false] of faults) {
  t.test(`refused: ${what}`, (t) => {
    const { reader } = start({ masked })
    let fault: unknown
    try {
      reader.read(bytes)
    } catch (error) {
      fault = error
    }
    t.match(fault, { closeCode })
    t.end()
  })
}
