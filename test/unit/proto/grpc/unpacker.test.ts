import { gzipSync } from 'node:zlib'
import t from 'tap'
import { maxUnpackingAtOnce, Unpacker, type UnpackTurns, unpackTurns } from '../../../../src/proto/grpc/unpacker.ts'

const bytes = 1024 * 1024
const packed = gzipSync(Buffer.alloc(bytes))
const limits = { maxMessageBytes: bytes }

/** Occupies all turns; each call of `done` releases one. */
function taken(): { turns: UnpackTurns; done: () => void } {
  const turns = unpackTurns()
  const waiting = Array.from({ length: maxUnpackingAtOnce }, () => Promise.withResolvers<void>())
  for (const { promise } of waiting) void turns.run({}, new AbortController().signal, () => promise)
  return { turns, done: () => waiting.pop()?.resolve() }
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

t.test('each payer has a turn where another one has had one, however many connections it has', async (t) => {
  const { turns, done } = taken()
  const unpacked: string[] = []
  const unpack = (name: string, payer: object) => {
    const unpacker = new Unpacker(limits, turns)
    unpacker.chargeTo(payer)
    return unpacker.unpack(packed, {}).then(() => unpacked.push(name))
  }
  const [evil, good] = [{}, {}]
  const all = [unpack('evil 0', evil), unpack('evil 1', evil), unpack('evil 2', evil), unpack('good', good)]
  done()
  await Promise.all(all)
  t.strictSame(unpacked, ['evil 0', 'good', 'evil 1', 'evil 2'])
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
