import { once } from 'node:events'
import { connect as dial } from 'node:net'
import * as grpc from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import type { Forward } from '../../../src/call/call.ts'
import type { RailsServerOptions } from '../../../src/kas/servers/rails/rails-server.ts'
import { callUnary, connect, goodMetadata, jwt, metadataOf, openBidi, startRailsServer } from './start-server.ts'

/** Connections to 8153 without any call of GitLab. */

const method = '/test.Own/Hello'
const methods = new Map([[method, async (request: Uint8Array) => request]])
const echo: Forward = async ({ messages }) => ({
  metadata: Promise.resolve({}),
  messages,
  done: Promise.resolve({ trailers: {} }),
})

async function setUp(t: Test, unauthenticated: RailsServerOptions['unauthenticated']) {
  const refused: string[] = []
  const onRefused = (reason: string) => void refused.push(reason)
  const { port } = await startRailsServer(t, {
    components: { methods, forward: echo, onRefused },
    options: { ...(unauthenticated ? { unauthenticated } : {}) },
  })
  /** Opens a silent connection. `closed`: the server has ended it. */
  const connectSilently = async () => {
    const socket = dial({ port, host: '127.0.0.1' })
    t.teardown(() => socket.destroy())
    socket.on('error', () => undefined).resume()
    const closed = new Promise<string>((resolve) => socket.once('close', () => resolve('closed')))
    await once(socket, 'connect')
    return { closed }
  }
  return { port, refused, connectSilently }
}

t.test('the longest silent makes room; a bad token is silence, a good one lets its connection in', async (t) => {
  const { port, refused, connectSilently } = await setUp(t, { maxIdlePerAddress: 3, graceMs: 0 })
  const gitlab = connect(t, port)
  const call = openBidi(gitlab, '/test.Agent/Echo', await goodMetadata({ 'kas-hop-routing-agent-id': '42' }))
  const answer = async (text: string) => {
    const answered = once(call.stream, 'data')
    call.stream.write(Buffer.from(text))
    return String((await answered)[0])
  }
  t.equal(await answer('first'), 'first')

  const stranger = connect(t, port, { 'grpc.enable_retries': 0 })
  const forged = metadataOf({ authorization: `bearer ${await jwt({ key: Buffer.alloc(32, 7) })}` })
  const lost = new Promise<void>((resolve) => {
    stranger.waitForReady(Date.now() + 60_000, () => {
      const { READY } = grpc.connectivityState
      stranger.getChannel().watchConnectivityState(READY, Number.POSITIVE_INFINITY, () => resolve())
    })
  })
  t.equal((await callUnary(stranger, method, Buffer.from('x'), forged)).code, grpc.status.UNAUTHENTICATED)
  const silent = []
  for (let i = 0; i < 5; i++) silent.push(await connectSilently())
  await lost
  await Promise.all(silent.slice(0, 2).map(({ closed }) => closed))
  t.equal(await answer('second'), 'second', 'GitLab sees nothing')
  t.same(refused, Array(3).fill('too_many_connections'))
  call.stream.cancel()
})

t.test('where all came just now, the next is refused', async (t) => {
  const { port, refused, connectSilently } = await setUp(t, { maxIdlePerAddress: 2, graceMs: 60_000 })
  const gitlab = connect(t, port)
  const hello = async () => (await callUnary(gitlab, method, Buffer.from('x'), await goodMetadata())).code
  t.equal(await hello(), grpc.status.OK)
  const [first, second, third] = [await connectSilently(), await connectSilently(), await connectSilently()]
  await third.closed
  t.equal(await Promise.race([first.closed, second.closed, hello()]), grpc.status.OK)
  t.same(refused, ['too_many_connections'])
})

t.test('one that is silent for too long ends when another comes', async (t) => {
  const { refused, connectSilently } = await setUp(t, { maxSilenceMs: 0 })
  const first = await connectSilently()
  await connectSilently()
  await first.closed
  t.same(refused, ['too_slow'])
})
