import t from 'tap'
import {
  closeFrame,
  MessageBoundaries,
  opcodes,
  serverFrame,
} from '../../../../../../src/kas/servers/kubernetes/websocket/server-frames.ts'
import { Seeded } from '../../../../../support/seeded.ts'
import { webSocketFrames } from '../../../../../support/websocket-frames.ts'

const continuation = 0
const text = 1
const ping = 9

/** Returns a frame of a message that continues in the next frame. */
function unfinished(opcode: number, payload: Uint8Array): Buffer {
  const frame = serverFrame(opcode, payload)
  frame[0] = opcode
  return frame
}

/** Returns a frame as a client sends it. */
function masked(payload: Buffer): Buffer {
  const head = Buffer.from([0x80 | opcodes.binary, 0x80 | payload.length])
  return Buffer.concat([head, Buffer.alloc(4), payload])
}

function endsOf(stream: Buffer, sizes: () => number): number[] {
  const boundaries = new MessageBoundaries()
  const ends: number[] = []
  for (let from = 0; from < stream.length; ) {
    const chunk = stream.subarray(from, from + sizes())
    for (let at = 0; at < chunk.length; ) {
      const end = boundaries.endOf(chunk, at)
      if (end < 0) break
      ends.push(from + end)
      at = end
    }
    from += chunk.length
  }
  return ends
}

t.test('the ends of messages are found however their bytes come', async (t) => {
  const parts: readonly (readonly [frame: Buffer, isEnd: boolean])[] = [
    [serverFrame(opcodes.binary, Buffer.from('short')), true],
    [serverFrame(opcodes.binary, new Uint8Array(0)), true],
    [serverFrame(text, Buffer.alloc(125)), true],
    [serverFrame(text, Buffer.alloc(126)), true],
    [serverFrame(text, Buffer.alloc(65_535)), true],
    [serverFrame(text, Buffer.alloc(65_536)), true],
    [unfinished(text, Buffer.from('begun')), false],
    [serverFrame(ping, Buffer.from('x')), false],
    [unfinished(continuation, new Uint8Array(0)), false],
    [serverFrame(continuation, Buffer.from('whole')), true],
    [serverFrame(ping, new Uint8Array(0)), true],
    [masked(Buffer.from('as no server should')), true],
    [closeFrame(1000, 'bye'), false],
    [serverFrame(text, Buffer.from('behind the end')), false],
  ]
  const stream = Buffer.concat(parts.map(([frame]) => frame))
  let at = 0
  const expected = parts.flatMap(([frame, isEnd]) => {
    at += frame.length
    return isEnd ? [at] : []
  })
  const random = Seeded.for(t)
  t.strictSame(
    endsOf(stream, () => stream.length),
    expected,
    'at once',
  )
  t.strictSame(
    endsOf(stream, () => 1),
    expected,
    'one by one',
  )
  for (let i = 0; i < 20; i++)
    t.strictSame(
      endsOf(stream, () => 1 + Math.floor(random.fraction() * 3000)),
      expected,
    )
})

t.test('a message, and the last one', async (t) => {
  for (const length of [0, 125, 126, 65_535, 65_536]) {
    const [frame] = webSocketFrames(serverFrame(opcodes.binary, Buffer.alloc(length, 7)))
    t.match(frame, { final: true, opcode: 2, mask: undefined })
    t.same(frame?.payload, Buffer.alloc(length, 7))
  }
  const [close] = webSocketFrames(closeFrame(1008, 'é'.repeat(100)))
  t.equal(close?.opcode, 8)
  t.equal(close?.payload.readUInt16BE(0), 1008)
  t.equal(close?.payload.subarray(2).toString(), '?'.repeat(100), 'what is too long in UTF-8 is written without')
  t.equal(webSocketFrames(closeFrame(1000, ''))[0]?.payload.length, 2)
})
