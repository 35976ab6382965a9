import { once } from 'node:events'
import t from 'tap'
import { webSocketMessageBytes } from '../../../../src/proto/grpc/limits.ts'
import { MessageDuplex, type MessageSocket } from '../../../../src/proto/grpc/message-duplex.ts'

/** A WebSocket that takes everything at once. */
function fakeSocket(): MessageSocket & { sent: Uint8Array[] } {
  const sent: Uint8Array[] = []
  return {
    sent,
    bufferedAmount: 0,
    binaryType: '',
    send: (data, _, done) => {
      sent.push(data)
      done()
    },
    on: () => undefined,
    pause: () => undefined,
    resume: () => undefined,
    close: () => undefined,
    terminate: () => undefined,
  }
}

t.test('a large write leaves in messages that the other side takes, in order', async (t) => {
  const socket = fakeSocket()
  const duplex = new MessageDuplex(socket)
  t.teardown(() => duplex.destroy())
  const bytes = Buffer.alloc(2 * webSocketMessageBytes + 5, 'abcdefg')
  duplex.cork() // several writes become one, as node:http2 writes a window
  for (let at = 0; at < bytes.length; at += 16_384) duplex.write(bytes.subarray(at, at + 16_384))
  duplex.write('end')
  const drained = once(duplex, 'drain')
  duplex.uncork()
  await drained
  t.strictSame(
    socket.sent.map(({ length }) => length),
    [webSocketMessageBytes, webSocketMessageBytes, 8],
  )
  t.ok(Buffer.concat(socket.sent).equals(Buffer.concat([bytes, Buffer.from('end')])))
  t.equal(duplex.bytesWritten, bytes.length + 3)
})
