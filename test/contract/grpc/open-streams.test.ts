import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import t, { type Test } from 'tap'
import { ClientSession } from '../../../src/proto/grpc/client-session.ts'
import { serveSession } from '../../../src/proto/grpc/server-session.ts'
import type { Handler, ServerStream } from '../../../src/proto/grpc/server-stream.ts'

/** Memory that a long open stream does not keep. */

/** @returns a client of one handler */
async function serve(t: Test, handler: Handler): Promise<ClientSession> {
  const server = createServer((socket) => {
    const session = serveSession(socket, () => handler)
    t.teardown(() => session.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const socket = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1' })
  await once(socket, 'connect')
  const client = ClientSession.over(socket, { authority: 'test', scheme: 'http' })
  t.teardown(() => client.destroy())
  return client
}

t.test('work that runs while the call is open is told when it ends, and so is what begins later', async (t) => {
  const begun = Promise.withResolvers<void>()
  const told = Promise.withResolvers<unknown[]>()
  const client = await serve(t, async (stream) => {
    const first = await stream.whileOpen(async (signal) => {
      begun.resolve()
      await once(signal, 'abort')
      return signal.reason.code
    })
    const second = await stream.whileOpen(async (signal) => signal.aborted)
    told.resolve([first, second])
  })
  const call = client.open({ method: '/test.Contract/Hang' })
  await begun.promise
  call.cancel()
  t.strictSame(await told.promise, ['CANCELLED', true])
})

t.test('the signal of such work is its own: that of the call stays as it is', async (t) => {
  const client = await serve(t, async (stream) => {
    const { signal } = stream
    const other = await stream.whileOpen(async (working) => working !== signal)
    return { other: [String(other)], aborted: [String(signal.aborted)] }
  })
  const { trailers } = await client.open({ method: '/test.Contract/Hang' }).done
  t.match(trailers, { other: ['true'], aborted: ['false'] })
})

t.test('metadata is read once or often, until it is forgotten', async (t) => {
  const seen: (readonly string[] | undefined)[] = []
  const read = ({ metadata }: ServerStream) => void seen.push(metadata['some-key'])
  const client = await serve(t, async (stream) => {
    read(stream)
    read(stream)
    stream.forgetMetadata()
    read(stream)
  })
  await client.open({ method: '/test.Contract/Hang', metadata: { 'some-key': ['some value'] } }).done
  t.strictSame(seen, [['some value'], ['some value'], undefined])
})
