import { once } from 'node:events'
import type { Http2Stream } from 'node:http2'
import { Readable } from 'node:stream'
import t from 'tap'
import { KasError } from '../../../../src/lib/errors.ts'
import { SharedTotal } from '../../../../src/lib/shared-total.ts'
import { Deframer, framePrefix, prefixBytes } from '../../../../src/proto/grpc/frames.ts'
import { Inbox } from '../../../../src/proto/grpc/inbox.ts'
import { maxUnreadBytes, unreadMessageBytes } from '../../../../src/proto/grpc/limits.ts'
import type { StreamWindow } from '../../../../src/proto/grpc/stream-window.ts'
import { Unpacker } from '../../../../src/proto/grpc/unpacker.ts'
import { UnreadBytes } from '../../../../src/proto/grpc/unread-bytes.ts'

const maxMessageBytes = 4 << 20

/** An inbox with the bytes that the connection gives to its stream. */
function inbox(owner?: UnreadBytes) {
  const stream = new Readable({ read: () => undefined })
  const faults: string[] = []
  let held = 0
  const hold = (bytes: number) => {
    held += bytes
  }
  const ignore = () => undefined
  const window = {
    hold,
    extraOf: () => 0,
    took: ignore,
    arrived: ignore,
    began: ignore,
    ended: ignore,
  } as unknown as StreamWindow
  const messages = new Inbox(
    {
      stream: stream as unknown as Http2Stream,
      deframer: new Deframer(maxMessageBytes, () => undefined),
      window,
      unpacker: new Unpacker({ maxMessageBytes }),
    },
    (error) => {
      faults.push(error.code)
      messages.fail(error)
    },
    () => undefined,
  )
  if (owner) messages.chargeTo(owner)
  stream.on('end', () => messages.end())
  stream.on('close', () => messages.close())
  return { stream, messages, faults, heldByWindow: () => held }
}

const message = (bytes: number, fill: string) => Buffer.concat([framePrefix(bytes), Buffer.alloc(bytes, fill)])

/** Bytes counted for a message of `bytes` bytes while it waits. */
const waiting = (bytes: number) => prefixBytes + bytes + unreadMessageBytes

/** Cuts `bytes` into pieces of these sizes, in turn. */
function* cut(bytes: Buffer, sizes: readonly number[]) {
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const size = sizes[i % sizes.length] as number
    yield bytes.subarray(at, at + size)
    at += size
  }
}

t.test('pieces of a byte that nobody reads are kept together', async (t) => {
  const held = new UnreadBytes(1 << 20)
  const { stream, messages } = inbox(held)
  let kept = 0
  stream.on('resume', () => stream.prependListener('data', () => kept++))
  const bytes = message(50_000, 'x')
  for (const piece of cut(bytes, [1])) stream.push(piece)
  t.equal(held.bytes, bytes.length)
  t.equal((await messages.next()).value?.length, 50_000)
  t.ok(kept <= 50, `${kept} pieces`)
  t.equal(held.bytes, 0)
})

t.test('what was kept comes whole and in its order, before and between reads', async (t) => {
  const lengths = [0, 1, 70_000, 5, 1000, 1024, 30_000, 2, 90_000, 0, 1019, 66_000]
  const all = Buffer.concat(lengths.map((length, i) => message(length, String.fromCharCode(97 + i))))
  for (const sizes of [[1], [1023], [1024], [1025], [1, 2000], [3, 1024, 700, 16_384, 1], [16_384], [200_000]]) {
    const held = new UnreadBytes(1 << 20)
    const { stream, messages, heldByWindow } = inbox(held)
    const pieces = cut(all, sizes)
    let hasEnded = false
    const give = (bytes: number) => {
      for (let given = 0; given < bytes; ) {
        const { value, done } = pieces.next()
        if (done) {
          if (!hasEnded) stream.push(null)
          hasEnded = true
          return
        }
        given += value.length
        stream.push(value)
      }
    }
    give(50_000)
    const got: string[] = []
    let wasStopped = false
    for (;;) {
      const next = messages.next()
      give(2 * maxUnreadBytes)
      wasStopped ||= stream.isPaused()
      const { value, done } = await next
      if (done) break
      got.push(`${value.length}${Buffer.from(value).toString('latin1', 0, 1)}`)
    }
    t.same(
      got,
      lengths.map((length, i) => `${length}${length ? String.fromCharCode(97 + i) : ''}`),
      `pieces of ${sizes} bytes`,
    )
    t.equal(held.bytes, 0)
    t.ok(wasStopped, 'it was stopped meanwhile')
    t.equal(heldByWindow(), 0)
  }
})

t.test('without room who holds most ends, not who keeps up', async (t) => {
  const held = new UnreadBytes(400_000)
  const stopped = [150_000, 170_000].map((bytes) => {
    const one = inbox(held)
    one.messages.begin()
    one.stream.push(message(bytes, 's'))
    return one
  })
  const [less, most] = stopped as [(typeof stopped)[0], (typeof stopped)[0]]
  const quick = inbox(held)
  for (let i = 0; i < 50; i++) {
    const next = quick.messages.next()
    for (const piece of cut(message(100_000, 'q'), [16_384])) quick.stream.push(piece)
    t.equal((await next).value?.length, 100_000)
  }
  t.same(quick.faults, [])
  t.same(less.faults, [])
  t.same(most.faults, ['TOO_MUCH_UNREAD'])
  t.equal(most.messages.bufferedBytes, 0)
  t.equal(held.bytes, waiting(150_000))
  most.stream.push(Buffer.alloc(10_000))
  t.equal(held.bytes, waiting(150_000), 'nothing of it is kept any more')
  less.stream.push(Buffer.alloc(300_000))
  t.same(less.faults, ['TOO_MUCH_UNREAD'], 'also if it is the one that receives')
  t.equal(held.bytes, 0)
  t.equal(less.heldByWindow() + most.heldByWindow(), 0)
})

t.test('a call that has ended well is never cut: what receives then ends', async (t) => {
  const held = new UnreadBytes(100_000)
  const ended = inbox(held)
  ended.messages.begin()
  ended.stream.push(message(60_000, 'e'))
  const end = once(ended.stream, 'close')
  ended.stream.push(null)
  await end
  const late = inbox(held)
  for (const piece of cut(message(60_000, 'l'), [16_384])) late.stream.push(piece)
  t.same(late.faults, ['TOO_MUCH_UNREAD'])
  t.same(ended.faults, [])
  t.equal((await ended.messages.next()).value?.length, 60_000)
  t.equal((await ended.messages.next()).done, true)
})

t.test('what a call has left unread is counted until it is read, or nobody will', async (t) => {
  const held = new UnreadBytes(1 << 20)
  const closed = async () => {
    const one = inbox(held)
    one.messages.begin()
    for (let i = 0; i < 3; i++) one.stream.push(message(10_000, 'm'))
    one.stream.push(message(10_000, 'm').subarray(0, 500)) // never completed
    const close = once(one.stream, 'close')
    await new Promise(setImmediate)
    one.stream.destroy()
    await close
    one.messages.fail(new KasError({ code: 'CANCELLED' }))
    return one
  }
  const { messages } = await closed()
  t.equal(held.bytes, 3 * waiting(10_000))
  for (const bytes of [2 * waiting(10_000), waiting(10_000), 0]) {
    t.equal((await messages.next()).value?.length, 10_000)
    t.equal(held.bytes, bytes)
  }
  await t.rejects(messages.next(), { code: 'CANCELLED' })
  const other = await closed()
  await other.messages.next()
  t.equal(held.bytes, 2 * waiting(10_000))
  await other.messages.return()
  t.equal(held.bytes, 0)
  await other.messages.return()
  t.equal(held.bytes, 0)
})

t.test('empty messages that nobody reads have a bound, also those of one frame', async (t) => {
  const held = new UnreadBytes(100 * waiting(0))
  const { stream, messages, faults } = inbox(held)
  t.equal(messages.take(), undefined)
  for (let i = 0; i < 10; i++) stream.push(message(0, ''))
  await new Promise(setImmediate)
  t.equal(held.bytes, 10 * waiting(0))
  stream.push(Buffer.alloc(prefixBytes * 1000))
  t.same(new Set(faults), new Set(['TOO_MUCH_UNREAD']))
  t.equal(held.bytes, 0)
})

t.test('messages that nobody reads do not keep what was read with them', async (t) => {
  const { stream, messages } = inbox()
  t.equal(messages.take(), undefined)
  await new Promise(setImmediate)
  const sizes = Array.from({ length: 100 }, (_, i) => (i % 7) * 100)
  const fill = (i: number) => 'abc'.charAt(i % 3)
  let last = Buffer.alloc(0)
  for (const [i, size] of sizes.entries()) {
    const read = Buffer.alloc(65_536)
    const bytes = message(size, fill(i))
    bytes.copy(read)
    stream.push(read.subarray(0, bytes.length))
    last.fill(0) // the buffer is reused; the message must not share it
    last = read
    if (i % 10 === 5) t.equal((await messages.next()).value?.length, sizes[Math.floor(i / 10)])
  }
  for (let i = 10; i < sizes.length; i++) {
    const { value } = await messages.next()
    if (!value || !Buffer.alloc(sizes[i] as number, fill(i)).equals(value)) t.fail(`message ${i}`)
  }
})

t.test('of a total of many agents the caller who has most makes room, whatever agents it calls', async (t) => {
  const large = maxUnreadBytes + 1
  const total = new SharedTotal({ maxBytes: 3 * waiting(large) })
  const agents = ['one', 'other', 'third'].map(
    (tenant) => new UnreadBytes(1 << 20, undefined, (caller = tenant) => total.enter(tenant, caller)),
  )
  const begin = async (agent: number, caller: string) => {
    const { stream, messages, faults } = inbox()
    messages.chargeTo(agents[agent])
    messages.payBy(caller)
    messages.begin()
    stream.push(message(large, 'x'))
    await once(stream, 'pause')
    return { stream, messages, faults }
  }
  const good = await begin(0, 'good')
  const greedy = [await begin(1, 'greedy'), await begin(2, 'greedy')]
  t.equal(total.bytes, 3 * waiting(large))
  const late = await begin(0, 'late')
  t.same(good.faults, [])
  t.same(late.faults, [])
  t.same(
    greedy.flatMap(({ faults }) => faults),
    ['REPLICA_MEMORY_FULL'],
  )
  t.equal(
    agents.reduce((sum, { bytes }) => sum + bytes, 0),
    total.bytes,
    'what it had is given back to both',
  )
  for (const { messages } of [good, late]) t.equal((await messages.next()).value?.length, large)
  t.equal(total.bytes, waiting(large))
})

t.test('what is sent and has not left is given back once, at its end', async (t) => {
  const total = new SharedTotal({ maxBytes: 1 << 20 })
  const owner = new UnreadBytes(1 << 20, undefined, (caller = 'own') => total.enter('tenant', caller))
  const { stream, messages } = inbox(owner)
  messages.countUnsent(1000)
  messages.payBy('caller')
  messages.countUnsent(3000)
  t.equal(total.bytes, 3000)
  stream.destroy()
  await once(stream, 'close')
  messages.countUnsent(0) // as the sender does, which closes after the stream
  t.equal(total.bytes, 0)
})

t.test('charged to another one, it owes nothing to the one before', async (t) => {
  const [first, second] = [new UnreadBytes(1 << 20), new UnreadBytes(1 << 20)]
  const { stream, messages } = inbox(first)
  messages.begin()
  const large = maxUnreadBytes + 1
  stream.push(message(large, 'x'))
  await once(stream, 'pause')
  t.equal(first.bytes, waiting(large))
  messages.chargeTo(second)
  t.same([first.bytes, second.bytes], [0, waiting(large)])
  messages.chargeTo(undefined)
  t.same([first.bytes, second.bytes], [0, 0])
  messages.chargeTo(first)
  t.equal(first.bytes, waiting(large))
  t.equal((await messages.next()).value?.length, large)
  t.same([first.bytes, second.bytes], [0, 0])
})

t.test('it is read once it has ended and nothing is left, not before', async (t) => {
  const { stream, messages } = inbox()
  messages.begin()
  stream.push(message(1, 'x'))
  stream.push(null)
  t.equal(messages.isRead, false)
  await once(stream, 'end')
  t.equal(messages.isRead, false)
  t.same(messages.take(), Buffer.from('x'))
  t.equal(messages.isRead, true)
})
