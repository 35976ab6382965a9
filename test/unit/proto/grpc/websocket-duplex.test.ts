import { EventEmitter, once } from 'node:events'
import { Duplex } from 'node:stream'
import t, { type Test } from 'tap'
import { maxUnsentBytes, waitingPieceBytes, webSocketMessageBytes } from '../../../../src/proto/grpc/limits.ts'
import { WebSocketDuplex, type WebSocketDuplexOptions } from '../../../../src/proto/grpc/websocket-duplex.ts'
import { webSocketFrames } from '../../../support/websocket-frames.ts'

const open = 1
const closed = 3

class FakeSocket extends EventEmitter {
  readyState = open
  paused = false
  readonly control: Buffer[] = []
  ended: number | 'terminated' | undefined

  constructor(connection: Duplex) {
    super()
    connection.on('data', (bytes: Buffer) => this.control.push(bytes))
  }

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

  /** Closes its connection. */
  vanish(): void {
    this.readyState = closed
    this.emit('close')
  }
}

/** The connection below a WebSocket. It takes everything, or keeps the first write waiting until `release`. */
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

/** head of a message with a mask of zeros */
const head = (bytes: number) => Buffer.of(0x82, 0xfe, bytes >> 8, bytes & 255, 0, 0, 0, 0)

function start(t: Test, options: Partial<WebSocketDuplexOptions> = {}) {
  const connection = new FakeConnection()
  const socket = new FakeSocket(connection)
  const duplex = new WebSocketDuplex(socket, { connection, masking: 'none', ...options })
  t.teardown(() => {
    duplex.destroy()
    connection.destroy()
  })
  const arrive = (bytes: Buffer) => connection.emit('data', bytes)
  /** receives a message; its payload arrives in a read of its own */
  const receive = (payload: Buffer) => {
    arrive(head(payload.length))
    arrive(payload)
  }
  return { socket, connection, duplex, arrive, receive }
}

t.test('a large write leaves in messages that the other side takes, in order', async (t) => {
  const { connection, duplex } = start(t)
  const bytes = Buffer.alloc(2 * webSocketMessageBytes + 5, 'abcdefg')
  duplex.cork() // combines several writes, as node:http2 does for a window
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

t.test('so does one behind many small ones, for what each costs', async (t) => {
  const { connection, duplex } = start(t)
  await write(duplex, '') // an empty write, which is never sent
  connection.holds = true
  let written = 0
  const most = Math.floor(maxUnsentBytes / waitingPieceBytes)
  const all = Array.from({ length: 2 * most }, () => write(duplex, 'x').then(() => written++))
  await new Promise(setImmediate)
  t.ok(written > 0.9 * most && written <= most, `${written} of ${most}`)
  connection.release()
  await Promise.all(all)
  t.equal(Buffer.concat(connection.frames.map(({ payload }) => payload)).length, 2 * most)
})

t.test('memory of its own is given back once its bytes have passed, either way', async (t) => {
  const { connection, duplex, arrive, receive } = start(t)
  const [kept, sent] = [Buffer.alloc(2 * 5000), Buffer.alloc(5000)]
  duplex.cork()
  duplex.write(kept.subarray(5000))
  const written = new Promise((resolve) => duplex.write(sent, resolve))
  duplex.uncork()
  await written
  t.equal(connection.frames[0]?.payload.length, 10_000)
  t.strictSame([kept.length, sent.length], [2 * 5000, 0])
  const [unread, read] = [Buffer.alloc(5000), Buffer.alloc(5000)]
  receive(unread)
  t.equal(unread.length, 5000, 'it waits for its reader')
  const seen: number[] = []
  duplex.on('data', ({ length }: Buffer) => seen.push(length))
  await new Promise(setImmediate)
  receive(read)
  t.strictSame([...seen, unread.length, read.length], [5000, 5000, 0, 0])
  const both = Buffer.concat([head(4500), Buffer.alloc(4500), head(4500), Buffer.alloc(4200)])
  const alone = Buffer.from(both.buffer.slice(both.byteOffset, both.byteOffset + both.length))
  arrive(alone)
  t.strictSame([seen.slice(2), alone.length], [[4500, 4200], 0], 'with a message that has only begun')
})

t.test('a PING is for the socket, which may send from it while what was read is freed', async (t) => {
  const { socket, duplex, arrive } = start(t)
  let read = ''
  duplex.on('data', (chunk: Buffer) => {
    read += chunk
  })
  await new Promise(setImmediate)
  const bytes = Buffer.from(new ArrayBuffer(5000)).fill('x')
  Buffer.concat([head(2), Buffer.from('ab'), Buffer.of(0x89, 2), Buffer.from('pi'), head(4978)]).copy(bytes)
  arrive(bytes)
  t.equal(Buffer.concat(socket.control).toString('latin1'), '\x89\x02pi')
  t.equal(read, `ab${'x'.repeat(4978)}`)
  t.equal(bytes.length, 0)
})

t.test('small messages that wait keep nothing else that was read with them', async (t) => {
  const { duplex, arrive } = start(t)
  const reads = Array.from({ length: 3 }, () => Buffer.alloc(64 * 1024))
  for (const read of reads) {
    arrive(head(1))
    arrive(read.subarray(0, 1))
  }
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
  const { socket, duplex, receive } = start(t)
  const half = duplex.readableHighWaterMark / 2
  const message = Buffer.alloc(half / 4)
  for (let i = 0; i < 4; i++) receive(message)
  t.equal(socket.paused, false)
  for (let i = 0; i < 4; i++) receive(message)
  t.equal(socket.paused, true)
  t.equal(duplex.bytesRead, duplex.readableHighWaterMark)
  duplex.resume()
  await once(duplex, 'data')
  await new Promise(setImmediate)
  t.equal(socket.paused, false)
})

t.test('so do pieces of one byte, for what each costs, and all of them are read', async (t) => {
  const { socket, duplex, arrive } = start(t)
  const sent: number[] = []
  for (; !socket.paused && sent.length < duplex.readableHighWaterMark; sent.push(sent.length & 255)) {
    arrive(head(1))
    arrive(Buffer.of(sent.length & 255))
  }
  t.equal(sent.length, Math.floor(duplex.readableHighWaterMark / (waitingPieceBytes + 1)) + 1)
  await new Promise(setImmediate)
  t.equal(socket.paused, true, 'whatever node asks for')
  const chunks: Buffer[] = []
  duplex.on('data', (chunk: Buffer) => {
    chunks.push(chunk)
    duplex.pause()
  })
  await once(duplex, 'data')
  await new Promise(setImmediate)
  t.equal(socket.paused, false, 'there is room again')
  arrive(Buffer.concat([head(1), Buffer.of(1)]))
  t.equal(socket.paused, true, 'there is none')
  duplex.removeAllListeners('data')
  duplex.on('data', (chunk: Buffer) => chunks.push(chunk)).resume()
  await new Promise(setImmediate)
  t.ok(Buffer.concat(chunks).equals(Buffer.from([...sent, 1])))
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
  const { socket, connection, duplex, receive } = start(t)
  const chunks: Buffer[] = []
  duplex.on('data', (chunk: Buffer) => chunks.push(chunk)).pause()
  receive(Buffer.from('the last words'))
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
  const { socket, duplex, receive } = start(t, { unreadPatienceMs: 10 })
  duplex.pause()
  receive(Buffer.from('nobody reads this'))
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

t.test('what a closed connection had waiting may be no frame to the socket: it is read all the same', async (t) => {
  const { socket, connection, duplex, receive } = start(t)
  const chunks: Buffer[] = []
  duplex.on('data', (chunk: Buffer) => chunks.push(chunk)).pause()
  receive(Buffer.from('the last words'))
  connection.destroy()
  socket.emit('error', new Error('invalid opcode'))
  socket.vanish()
  duplex.resume()
  await once(duplex, 'close')
  t.equal(Buffer.concat(chunks).toString(), 'the last words')
})

t.test('a text message is refused', async (t) => {
  const { socket, duplex, arrive } = start(t)
  const failed = once(duplex, 'error')
  arrive(Buffer.of(0x81, 0x84, 0, 0, 0, 0))
  arrive(Buffer.from('text'))
  t.match(await failed, [{ message: /text message/ }])
  t.equal(socket.ended, 1003)
})

t.test('a socket that is not open yet is read from then on', async (t) => {
  const connection = new FakeConnection()
  const socket = new FakeSocket(connection)
  socket.readyState = 0
  const duplex = new WebSocketDuplex(socket, { connection, masking: 'none' })
  t.teardown(() => duplex.destroy())
  const upgrade = Buffer.from('HTTP/1.1 101')
  connection.emit('data', upgrade)
  t.same(socket.control, [upgrade])
  socket.readyState = open
  socket.emit('open')
  connection.emit('data', Buffer.concat([head(2), Buffer.from('ab')]))
  t.equal(String(duplex.read()), 'ab')
  t.same(socket.control, [upgrade])
})

function write(duplex: WebSocketDuplex, text: string): Promise<void> {
  return new Promise((resolve, reject) => duplex.write(text, (error) => (error ? reject(error) : resolve())))
}
