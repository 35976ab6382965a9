import { PassThrough } from 'node:stream'
import t from 'tap'
import { webSocketMessageBytes } from '../../../../src/proto/grpc/limits.ts'
import { type Masking, writeFrames } from '../../../../src/proto/grpc/message-frames.ts'
import { webSocketFrames } from '../../../support/websocket-frames.ts'

const tlsRecordBytes = 16 * 1024

function written(pieces: readonly Buffer[], masking: Masking) {
  const connection = new PassThrough({ highWaterMark: 1024 * 1024 })
  let sent = 0
  writeFrames(connection, pieces, { masking, sent: () => sent++ })
  return { frames: webSocketFrames(connection.read() ?? Buffer.alloc(0)), sent: () => sent }
}

const bytesOf = (length: number) => Buffer.from(Array.from({ length }, (_, i) => i % 251))

t.test('each message is one binary frame, however it is masked and wherever its pieces end', async (t) => {
  const masks: [Masking, number | undefined][] = [
    ['none', undefined],
    ['zero', 0],
  ]
  for (const [masking, mask] of masks) {
    for (const length of [1, 125, 126, 4096, 4097, webSocketMessageBytes, webSocketMessageBytes + 1, 300_000]) {
      const bytes = bytesOf(length)
      const cuts = [0, 1, 9, 5000, 70_000, 140_000, length].filter((cut) => cut <= length)
      const pieces = cuts.slice(1).map((cut, i) => bytes.subarray(cuts[i], cut))
      const { frames } = written(pieces, masking)
      t.ok(Buffer.concat(frames.map(({ payload }) => payload)).equals(bytes), `${masking}, ${length} bytes`)
      t.equal(frames.length, Math.ceil(length / webSocketMessageBytes))
      for (const frame of frames) t.match(frame, { final: true, opcode: 2, mask })
    }
  }
})

t.test('a mask that is not zero is put on a copy, another one on each message', async (t) => {
  const bytes = bytesOf(10 * webSocketMessageBytes + 5)
  const before = Buffer.from(bytes)
  const { frames } = written([bytes.subarray(0, 9), bytes.subarray(9)], 'random')
  t.ok(Buffer.concat(frames.map(({ payload }) => payload)).equals(before))
  t.ok(bytes.equals(before))
  const keys = new Set(frames.map(({ mask }) => mask))
  t.equal(keys.size, frames.length)
  t.equal(keys.has(undefined), false)
})

t.test('a whole message of a client fills TLS records, so that its reader gets none in two parts', async (t) => {
  const { frames } = written([bytesOf(3 * webSocketMessageBytes)], 'zero')
  for (const { bytes } of frames) t.equal(bytes % tlsRecordBytes, 0)
})

t.test('it is told once, when all has left', async (t) => {
  const { sent } = written([bytesOf(150_000), bytesOf(10)], 'zero')
  await new Promise(setImmediate)
  t.equal(sent(), 1)
})
