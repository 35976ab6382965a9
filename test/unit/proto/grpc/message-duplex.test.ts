import { EventEmitter, once } from 'node:events'
import t, { type Test } from 'tap'
import { maxUnsentBytes, webSocketMessageBytes } from '../../../../src/proto/grpc/limits.ts'
import { MessageDuplex, type MessageDuplexOptions } from '../../../../src/proto/grpc/message-duplex.ts'

const open = 1
const closed = 3

/** A WebSocket that takes everything at once, and tells that it has when the test says so. */
class FakeSocket extends EventEmitter {
  readonly sent: Uint8Array[] = []
  readonly flushed: (() => void)[] = []
  bufferedAmount = 0
  readyState = open
  binaryType = ''
  paused = false
  ended: number | 'terminated' | undefined

  send(data: Uint8Array, _: unknown, done?: () => void): void {
    this.sent.push(data)
    if (done) this.flushed.push(done)
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

  /** Its connection is over. */
  vanish(): void {
    this.readyState = closed
    this.emit('close')
  }
}

function start(t: Test, options?: MessageDuplexOptions) {
  const socket = new FakeSocket()
  const duplex = new MessageDuplex(socket, options)
  t.teardown(() => duplex.destroy())
  return { socket, duplex }
}

t.test('a large write leaves in messages that the other side takes, in order', async (t) => {
  const { socket, duplex } = start(t)
  const bytes = Buffer.alloc(2 * webSocketMessageBytes + 5, 'abcdefg')
  duplex.cork() // several writes become one, as node:http2 writes a window
  for (let at = 0; at < bytes.length; at += 16_384) duplex.write(bytes.subarray(at, at + 16_384))
  const written = new Promise((resolve) => duplex.write('end', resolve))
  duplex.uncork()
  await written
  t.strictSame(
    socket.sent.map(({ length }) => length),
    [webSocketMessageBytes, webSocketMessageBytes, 8],
  )
  t.ok(Buffer.concat(socket.sent).equals(Buffer.concat([bytes, Buffer.from('end')])))
  t.equal(duplex.bytesWritten, bytes.length + 3)
})

t.test('a write waits only while more than the bound is unsent', async (t) => {
  const { socket, duplex } = start(t)
  await write(duplex, 'first')
  t.equal(socket.flushed.length, 0, 'nobody waits to be told')
  socket.bufferedAmount = maxUnsentBytes + 1
  let over = false
  const second = write(duplex, 'second').then(() => {
    over = true
  })
  await new Promise(setImmediate)
  t.equal(socket.sent.length, 2)
  t.equal(over, false)
  socket.flushed[0]?.()
  await second
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
  const { socket, duplex } = start(t)
  const chunks: Buffer[] = []
  duplex.on('data', (chunk: Buffer) => chunks.push(chunk)).pause()
  socket.emit('message', Buffer.from('the last words'), true)
  socket.vanish()
  await write(duplex, 'an answer that comes too late does no harm')
  t.equal(socket.sent.length, 0)
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

function write(duplex: MessageDuplex, text: string): Promise<void> {
  return new Promise((resolve, reject) => duplex.write(text, (error) => (error ? reject(error) : resolve())))
}
