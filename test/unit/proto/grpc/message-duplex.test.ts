import { EventEmitter, once } from 'node:events'
import { Duplex } from 'node:stream'
import t, { type Test } from 'tap'
import { maxUnsentBytes, webSocketMessageBytes } from '../../../../src/proto/grpc/limits.ts'
import { MessageDuplex, type MessageDuplexOptions } from '../../../../src/proto/grpc/message-duplex.ts'
import { maxStrangerBytes, pieceBytes, uncountedBytes } from '../../../../src/proto/grpc/partial-message.ts'
import { UnreadBytes } from '../../../../src/proto/grpc/unread-bytes.ts'
import { webSocketFrames } from '../../../support/websocket-frames.ts'

const open = 1
const closed = 3

class FakeSocket extends EventEmitter {
  readyState = open
  binaryType = ''
  paused = false
  ended: number | 'terminated' | undefined

  pause(): void {
    this.paused = true
  }

  resume(): void {
    this.paused = false
  }

  close(code: number): void {
    this.ended ??= code
  }

  terminate(): void {
    this.ended ??= 'terminated'
  }

  /** Its connection is over. */
  vanish(): void {
    this.readyState = closed
    this.emit('close')
  }
}

/** What lies below a WebSocket: takes everything, or keeps the first write waiting until `release`. */
class FakeConnection extends Duplex {
  readonly #sent: Buffer[] = []
  #held: (() => void) | undefined
  holds = false

  get frames() {
    return webSocketFrames(Buffer.concat(this.#sent))
  }

  release(): void {
    this.holds = false
    this.#held?.()
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#sent.push(Buffer.from(chunk))
    if (this.holds) this.#held = done
    else done()
  }
}

function start(t: Test, options: Partial<MessageDuplexOptions> = {}) {
  const socket = new FakeSocket()
  const connection = new FakeConnection()
  const duplex = new MessageDuplex(socket, { connection, masking: 'none', ...options })
  t.teardown(() => {
    duplex.destroy()
    connection.destroy()
  })
  return { socket, connection, duplex }
}

t.test('a large write leaves in messages that the other side takes, in order', async (t) => {
  const { connection, duplex } = start(t)
  const bytes = Buffer.alloc(2 * webSocketMessageBytes + 5, 'abcdefg')
  duplex.cork() // several writes become one, as node:http2 writes a window
  for (let at = 0; at < bytes.length; at += 16_384) duplex.write(bytes.subarray(at, at + 16_384))
  const written = new Promise((resolve) => duplex.write('end', resolve))
  duplex.uncork()
  await written
  const sent = connection.frames.map(({ payload }) => payload)
  t.strictSame(
    sent.map(({ length }) => length),
    [webSocketMessageBytes, webSocketMessageBytes, 8],
  )
  t.ok(Buffer.concat(sent).equals(Buffer.concat([bytes, Buffer.from('end')])))
  t.equal(duplex.bytesWritten, bytes.length + 3)
})

t.test('a write waits only while more than the bound is unsent', async (t) => {
  const { connection, duplex } = start(t)
  connection.holds = true
  await write(duplex, 'first')
  let over = false
  const second = write(duplex, 'x'.repeat(maxUnsentBytes)).then(() => {
    over = true
  })
  await new Promise(setImmediate)
  t.ok(connection.writableLength > maxUnsentBytes)
  t.equal(over, false, 'it has not left')
  connection.release()
  await second
  await write(duplex, 'third')
  t.match(connection.frames.at(-1)?.payload.toString(), 'third')
})

t.test('memory of its own is given back once its bytes have passed, either way', async (t) => {
  const { socket, connection, duplex } = start(t)
  const [kept, sent] = [Buffer.alloc(2 * 5000), Buffer.alloc(5000)]
  duplex.cork()
  duplex.write(kept.subarray(5000))
  const written = new Promise((resolve) => duplex.write(sent, resolve))
  duplex.uncork()
  await written
  t.equal(connection.frames[0]?.payload.length, 10_000)
  t.strictSame([kept.length, sent.length], [2 * 5000, 0])
  const [unread, read] = [Buffer.alloc(5000), Buffer.alloc(5000)]
  socket.emit('message', unread, true)
  t.equal(unread.length, 5000, 'it waits for its reader')
  const seen: number[] = []
  duplex.on('data', ({ length }: Buffer) => seen.push(length))
  await new Promise(setImmediate)
  socket.emit('message', read, true)
  t.strictSame([...seen, unread.length, read.length], [5000, 5000, 0, 0])
})

t.test("what was read from the connection is nobody else's to free: ws may still send from it", async (t) => {
  const { socket, connection, duplex } = start(t)
  duplex.on('data', () => undefined)
  await new Promise(setImmediate)
  const read = Buffer.alloc(5000)
  connection.emit('data', read)
  socket.emit('ping', read.subarray(10, 20))
  socket.emit('message', read.subarray(100, 4000), true)
  socket.emit('pong', read.subarray(4100, 4200))
  t.equal(read.length, 5000)
})

t.test('small messages that wait keep nothing else that was read with them', async (t) => {
  const { socket, duplex } = start(t)
  const reads = Array.from({ length: 3 }, () => Buffer.alloc(64 * 1024))
  for (const read of reads) socket.emit('message', read.subarray(0, 1), true)
  duplex.pause()
  const kept: Buffer[] = []
  duplex.on('data', (chunk: Buffer) => kept.push(chunk)).resume()
  await new Promise(setImmediate)
  t.same(
    kept.slice(1).map(({ buffer }) => reads.some((read) => read.buffer === buffer)),
    [false, false],
  )
})

t.test('a reader that does not read stops the WebSocket', async (t) => {
  const { socket, duplex } = start(t)
  const message = Buffer.alloc(duplex.readableHighWaterMark / 2)
  socket.emit('message', message, true)
  t.equal(socket.paused, false)
  socket.emit('message', message, true)
  t.equal(socket.paused, true)
  t.equal(duplex.bytesRead, duplex.readableHighWaterMark)
  duplex.resume()
  await once(duplex, 'data')
  await new Promise(setImmediate)
  t.equal(socket.paused, false)
})

t.test('it closes with the WebSocket, also when its reader has paused it', async (t) => {
  const { socket, duplex } = start(t)
  duplex.on('data', () => undefined).pause()
  const closing = once(duplex, 'close')
  socket.vanish()
  await closing
})

t.test('what came before the end is still read', async (t) => {
  const { socket, connection, duplex } = start(t)
  const chunks: Buffer[] = []
  duplex.on('data', (chunk: Buffer) => chunks.push(chunk)).pause()
  socket.emit('message', Buffer.from('the last words'), true)
  socket.vanish()
  await write(duplex, 'an answer that comes too late does no harm')
  t.equal(connection.frames.length, 0)
  const events: string[] = []
  for (const event of ['end', 'error', 'close']) duplex.on(event, () => events.push(event))
  duplex.resume()
  await once(duplex, 'close')
  t.equal(Buffer.concat(chunks).toString(), 'the last words')
  t.strictSame(events, ['end', 'close'])
})

t.test('but not waited for without end', async (t) => {
  const { socket, duplex } = start(t, { unreadPatienceMs: 10 })
  duplex.pause()
  socket.emit('message', Buffer.from('nobody reads this'), true)
  const closing = once(duplex, 'close')
  socket.vanish()
  await closing
})

t.test('its end is the end of the WebSocket', async (t) => {
  const ended = start(t)
  ended.duplex.end()
  await once(ended.duplex, 'finish')
  t.equal(ended.socket.ended, 1000)
  const cut = start(t)
  cut.duplex.destroy()
  await once(cut.duplex, 'close')
  t.equal(cut.socket.ended, 'terminated')
})

t.test('a text message is refused', async (t) => {
  const { socket, duplex } = start(t)
  const failed = once(duplex, 'error')
  socket.emit('message', Buffer.from('text'), false)
  t.match(await failed, [{ message: /text message/ }])
  t.equal(socket.ended, 1003)
})

/** As a socket gives it. */
const chunkBytes = 64 * 1024

/** A connection whose agent has so much waiting elsewhere. */
function startCharged(t: Test, heldBytes: number, maxBytes = 1024 * 1024) {
  const { socket, connection, duplex } = start(t)
  const held = new UnreadBytes(maxBytes)
  held.add(heldBytes)
  duplex.on('error', () => undefined).resume()
  duplex.chargeTo(held)
  const arrive = (bytes: number) => connection.emit('data', Buffer.alloc(bytes))
  const message = (bytes: number) => socket.emit('message', Buffer.alloc(bytes), true)
  return { socket, duplex, held, arrive, message }
}

t.test('messages as agents send them need no room: where all is taken, their connection lives on', (t) => {
  const { duplex, held, arrive, message } = startCharged(t, 1024 * 1024)
  const headBytes = 14
  let arrived = 0
  let taken = 0
  for (let i = 0; i < 1000; i++) {
    arrive(chunkBytes)
    arrived += chunkBytes
    for (; arrived - taken >= webSocketMessageBytes + headBytes; taken += webSocketMessageBytes + headBytes) {
      message(webSocketMessageBytes)
    }
  }
  t.equal(duplex.destroyed, false)
  t.equal(held.bytes, 1024 * 1024)
  t.end()
})

t.test('small messages too, whose heads are most of them', (t) => {
  const { duplex, held, arrive, message } = startCharged(t, 1024 * 1024)
  for (let i = 0; i < 10; i++) {
    arrive(7 * 9000)
    for (let j = 0; j < 9000; j++) message(1)
  }
  t.equal(duplex.destroyed, false)
  t.equal(held.bytes, 1024 * 1024)
  t.end()
})

t.test('and those that come in the smallest pieces that networks make', (t) => {
  const { duplex, held, arrive, message } = startCharged(t, 1024 * 1024)
  for (let i = 0; i < 10; i++) {
    for (let left = webSocketMessageBytes + 14; left > 0; left -= 536) arrive(Math.min(536, left))
    message(webSocketMessageBytes)
  }
  t.equal(duplex.destroyed, false)
  t.equal(held.bytes, 1024 * 1024)
  t.end()
})

t.test('each piece counts more than its bytes: one by one, they are bounded too', (t) => {
  const charged = startCharged(t, 1024 * 1024)
  let pieces = 0
  for (; !charged.duplex.destroyed && pieces < 10_000; pieces++) charged.arrive(1)
  t.equal(charged.duplex.destroyed, true)
  t.ok(pieces <= uncountedBytes / pieceBytes + 1, `after ${pieces}`)
  const pinging = startCharged(t, 1024 * 1024)
  for (let i = 0; i < 10_000; i++) {
    pinging.arrive(6)
    pinging.socket.emit('ping', Buffer.alloc(0))
  }
  t.equal(pinging.duplex.destroyed, false, 'what is taken leaves no piece')
  t.end()
})

t.test('what is beyond of a message that is not whole is counted, and given back with it', async (t) => {
  const { duplex, held, arrive, message } = startCharged(t, 0)
  for (let i = 0; i < 8; i++) arrive(chunkBytes)
  t.equal(held.bytes, 8 * (chunkBytes + pieceBytes) - uncountedBytes)
  message(8 * chunkBytes - 14)
  t.equal(held.bytes, 0)
  for (let i = 0; i < 8; i++) arrive(chunkBytes)
  duplex.destroy()
  await once(duplex, 'close')
  t.equal(held.bytes, 0)
})

t.test('without room for it the connection ends, and says why', async (t) => {
  const { socket, duplex, held, arrive } = startCharged(t, 1024 * 1024)
  const failed = once(duplex, 'error')
  while (!duplex.destroyed) arrive(1024)
  t.match(await failed, [{ code: 'TOO_MUCH_UNREAD', message: /1048576/ }])
  t.equal(socket.ended, 1009)
  t.equal(held.bytes, 1024 * 1024)
})

t.test('a stranger has no more than its connection may keep', async (t) => {
  const { connection, duplex } = start(t)
  const failed = once(duplex, 'error')
  connection.emit('data', Buffer.alloc(maxStrangerBytes - pieceBytes))
  t.equal(duplex.destroyed, false)
  connection.emit('data', Buffer.alloc(1))
  t.match(await failed, [{ code: 'TOO_MUCH_UNREAD' }])
})

t.test('who becomes known has what came before counted, beyond what is free', async (t) => {
  const { connection, duplex } = start(t)
  connection.emit('data', Buffer.alloc(maxStrangerBytes - pieceBytes))
  const held = new UnreadBytes(1024 * 1024)
  duplex.chargeTo(held)
  t.equal(held.bytes, maxStrangerBytes - uncountedBytes)
  t.equal(duplex.destroyed, false)
})

function write(duplex: MessageDuplex, text: string): Promise<void> {
  return new Promise((resolve, reject) => duplex.write(text, (error) => (error ? reject(error) : resolve())))
}
