import { randomBytes } from 'node:crypto'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { Deframer, framePrefix } from '../../../../src/proto/grpc/frames.ts'
import { Seeded } from '../../../support/seeded.ts'

const maxMessageBytes = 4 << 20
const framed = (messages: readonly Uint8Array[]) =>
  Buffer.concat(messages.flatMap((message) => [framePrefix(message.length), message]))

/** Pushes `bytes` in pieces of these lengths, over and over. Returns the messages. */
function deframed(bytes: Buffer, lengths: () => number): Buffer[] {
  const deframer = new Deframer(maxMessageBytes, () => undefined)
  const messages: Buffer[] = []
  for (let [at, length] = [0, lengths()]; at < bytes.length; at += length, length = lengths()) {
    deframer.push(bytes.subarray(at, at + length), (message) => messages.push(Buffer.from(message)))
  }
  t.equal(deframer.bufferedBytes, 0)
  return messages
}

t.test('messages are the same however they are cut', async (t) => {
  const sizes = [0, 1, 4, 5, 1018, 1019, 1020, 1023, 1024, 1025, 2048, 70_000, 0, 3]
  const messages = sizes.map((size) => randomBytes(size))
  const bytes = framed(messages)
  const seeded = Seeded.for(t)
  const cuts: Record<string, () => number> = {
    whole: () => bytes.length,
    'byte by byte': () => 1,
    'one block': () => 1024,
    'just under a block': () => 1023,
    'just over a block': () => 1025,
    'large and small': () =>
      seeded.fraction() < 0.5 ? 1 + Math.floor(seeded.fraction() * 8) : 1 + Math.floor(seeded.fraction() * 4000),
  }
  for (const [name, lengths] of Object.entries(cuts)) t.strictSame(deframed(bytes, lengths), messages, name)
})

t.test('a message that is not whole does not keep what was read with its pieces', async (t) => {
  const pieces = Array.from({ length: 16 }, (_, i) => randomBytes(i % 2 ? 4096 : 1024))
  const deframer = new Deframer(maxMessageBytes, () => undefined)
  const messages: Buffer[] = []
  const onMessage = (message: Buffer) => void messages.push(message)
  deframer.push(framePrefix(pieces.reduce((sum, { length }) => sum + length, 1)), onMessage)
  for (const piece of pieces) {
    const read = Buffer.alloc(65_536)
    piece.copy(read)
    deframer.push(read.subarray(0, piece.length), onMessage)
    read.fill(0) // the buffer is reused; the message must not share it
  }
  deframer.push(Buffer.from('.'), onMessage)
  t.ok(messages[0]?.equals(Buffer.concat([...pieces, Buffer.from('.')])))
})

t.test('a large message in tiny pieces holds little more than its bytes', async (t) => {
  const bytes = 1 << 20
  const deframer = new Deframer(maxMessageBytes, () => undefined)
  const onMessage = () => t.fail('it is not complete')
  deframer.push(framePrefix(2 * bytes), onMessage)
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc') as () => void
  gc()
  const before = process.memoryUsage()
  for (let i = 0; i < bytes; i++) deframer.push(Buffer.from([i]), onMessage)
  gc()
  const after = process.memoryUsage()
  const cost = after.heapUsed - before.heapUsed + after.arrayBuffers - before.arrayBuffers
  t.equal(deframer.bufferedBytes, 5 + bytes)
  t.ok(cost < 4 * bytes, `${cost} bytes for ${bytes}`)
})
