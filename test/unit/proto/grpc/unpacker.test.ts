import { gzipSync } from 'node:zlib'
import t from 'tap'
import { maxUnpackingAtOnce, UnpackTurns } from '../../../../src/proto/grpc/unpack-turns.ts'
import { Unpacker } from '../../../../src/proto/grpc/unpacker.ts'

const bytes = 1024 * 1024
const packed = gzipSync(Buffer.alloc(bytes))
const limits = { maxMessageBytes: bytes }

/** Turns that others have, until they are done. */
function taken(): { turns: UnpackTurns; done: () => void } {
  const turns = new UnpackTurns()
  for (let i = 0; i < maxUnpackingAtOnce; i++) void turns.enter({}, {})
  return { turns, done: () => turns.done() }
}

t.test('a connection waits for its turn with others; those that had theirs before are unpacked', async (t) => {
  const { turns, done } = taken()
  const waiting = new Unpacker(limits, turns)
  let isDone = false
  const message = waiting.unpack(packed, {}).then(({ length }) => {
    isDone = true
    return length
  })
  await new Unpacker(limits).unpack(packed, {}) // takes as long
  t.equal(isDone, false)
  done()
  t.equal(await message, bytes)
})

t.test('a reader that leaves while it waits for that gives the turn of its connection to the next', async (t) => {
  const { turns, done } = taken()
  const unpacker = new Unpacker(limits, turns)
  const [first, second] = [{}, {}]
  const refused = t.rejects(unpacker.unpack(packed, first), { code: 'CANCELLED' })
  const message = unpacker.unpack(packed, second)
  unpacker.leave(first)
  await refused
  done()
  t.equal((await message).length, bytes)
})

t.test('what cannot be unpacked gives its turn back', async (t) => {
  const { turns, done } = taken()
  done()
  for (let i = 0; i < 2 * maxUnpackingAtOnce; i++) {
    const wrong = Buffer.concat([packed.subarray(0, 100), Buffer.alloc(100)])
    await t.rejects(new Unpacker(limits, turns).unpack(wrong, {}), { code: 'INVALID_MESSAGE' })
    await t.rejects(new Unpacker(limits, turns).unpack(packed, {}, 10), { code: 'MESSAGE_TOO_LARGE' })
  }
})
