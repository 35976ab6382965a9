import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { SpdyBoundaries } from '../../../../../src/kas/servers/kubernetes/spdy-frames.ts'
import {
  MessageBoundaries,
  opcodes,
  serverFrame,
} from '../../../../../src/kas/servers/kubernetes/websocket/server-frames.ts'
import { WholeFrames } from '../../../../../src/kas/servers/kubernetes/whole-frames.ts'

function start(boundaries: ConstructorParameters<typeof WholeFrames>[0]['boundaries'] = new MessageBoundaries()) {
  const written: Buffer[] = []
  const world = { kept: 0, mostKept: 0, full: undefined as Promise<void> | undefined }
  const frames = new WholeFrames({
    boundaries,
    write: (piece) => {
      written.push(Buffer.from(piece))
      return world.full
    },
    count: (bytes) => {
      world.kept += bytes
      world.mostKept = Math.max(world.mostKept, world.kept)
    },
  })
  return { frames, world, written: () => Buffer.concat(written) }
}

const frame = (length: number) => serverFrame(opcodes.binary, Buffer.alloc(length, 'a'))
const spdyFrame = Buffer.concat([Buffer.of(0, 0, 0, 3, 0, 0, 0, 5), Buffer.from('hello')])

t.test('wherever it is cut, whole frames alone are passed on, and all of them', async (t: Test) => {
  for (const [whole, boundaries] of [
    [[frame(3), frame(200), frame(33_000)], () => new MessageBoundaries()],
    [[spdyFrame, spdyFrame, spdyFrame], () => new SpdyBoundaries()],
  ] as const) {
    const bytes = Buffer.concat(whole)
    const ends = new Set<number>([0])
    for (let i = 1; i <= whole.length; i++) ends.add(Buffer.concat(whole.slice(0, i)).length)
    for (const pieceBytes of [1, 7, 1000, 40_000]) {
      const { frames, world, written } = start(boundaries())
      for (let at = 0; at < bytes.length; at += pieceBytes) {
        frames.push(bytes.subarray(at, at + pieceBytes))
        if (!ends.has(written().length)) t.fail(`${written().length} bytes end within a frame`)
        if (pieceBytes === 1 && at > 300) break // the rest is one frame
      }
      frames.flush()
      if (pieceBytes > 1) t.ok(written().equals(bytes), `in pieces of ${pieceBytes}`)
      t.equal(world.kept, 0)
    }
  }
})

t.test('of a long frame no more is kept than 64 KiB', async (t) => {
  const { frames, world, written } = start()
  const bytes = Buffer.concat([frame(1_000_000), frame(10)])
  for (let at = 0; at < bytes.length; at += 30_000) frames.push(bytes.subarray(at, at + 30_000))
  t.ok(written().equals(bytes))
  t.ok(world.mostKept <= 64 * 1024, `${world.mostKept}`)
})

t.test('a frame whose rest does not come is passed on as it is, unless the client is full', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const { frames, world, written } = start()
  frames.push(frame(10).subarray(0, 5))
  t.equal(written().length, 0)
  mock.timers.tick(100)
  t.equal(written().length, 5)
  const room = Promise.withResolvers<void>()
  world.full = room.promise
  const full = frames.push(Buffer.concat([frame(10).subarray(5), frame(10).subarray(0, 4)]))
  world.full = undefined
  mock.timers.tick(3_600_000)
  t.equal(written().length, 12, 'a client that has paused has whole frames')
  room.resolve()
  await full
  mock.timers.tick(100)
  t.equal(written().length, 16)
  t.equal(world.kept, 0)
})
