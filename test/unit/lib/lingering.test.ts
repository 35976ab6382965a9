import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { mock } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { Lingering } from '../../../src/lib/lingering.ts'

/** @returns both ends of a connection; the client closes its own side */
async function connected(t: Test, { isFirst = true } = {}): Promise<{ client: Socket; server: Socket }> {
  const listener = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const client = connect({ port: (listener.address() as AddressInfo).port, host: '127.0.0.1', allowHalfOpen: true })
  const [server] = (await once(listener, 'connection')) as [Socket]
  for (const socket of [client, server]) socket.on('error', () => undefined)
  listener.close()
  t.teardown(() => {
    client.destroy()
    server.destroy()
  })
  if (isFirst) {
    mock.timers.enable({ apis: ['setTimeout'] })
    t.teardown(() => mock.timers.reset())
  }
  return { client, server }
}

t.test('the client gets all and the end, and closes: then so is the connection', async (t) => {
  const { client, server } = await connected(t)
  server.write('last words')
  new Lingering(server, { ms: 1000, bytes: 1000 })
  client.write('more')
  const [said] = await once(client, 'data')
  t.equal(String(said), 'last words')
  await once(client, 'end')
  t.notOk(server.destroyed)
  client.end()
  await once(server, 'close')
})

t.test('a client that does not close has its time', async (t) => {
  const { client, server } = await connected(t)
  new Lingering(server, { ms: 1000, bytes: 1000 })
  client.resume()
  await once(client, 'end')
  mock.timers.tick(999)
  t.notOk(server.destroyed)
  mock.timers.tick(1)
  t.ok(server.destroyed)
})

t.test('a patient one begins the time once the client has taken what waits here', async (t) => {
  const { client, server } = await connected(t)
  const bytes = 16_000_000
  client.pause()
  server.write(Buffer.alloc(bytes))
  new Lingering(server, { ms: 1000, bytes: 1000 }, true)
  mock.timers.tick(3_600_000)
  t.notOk(server.destroyed)
  let taken = 0
  client.on('data', (chunk: Buffer) => {
    taken += chunk.length
  })
  client.resume()
  await once(client, 'end')
  t.equal(taken, bytes)
  mock.timers.tick(1000)
  t.ok(server.destroyed)
})

t.test('a client that writes on and on is read no further, and has less time', async (t) => {
  const { client, server } = await connected(t)
  const bytes = 100_000
  new Lingering(server, { ms: 3_600_000, bytes })
  client.resume()
  client.write(Buffer.alloc(32_000_000))
  while (!server.isPaused()) await nextTurn()
  t.ok(server.bytesRead < bytes + 2 ** 17, `${server.bytesRead} bytes`)
  mock.timers.tick(1000)
  t.ok(server.destroyed)
})

t.test('one that is in a hurry has no more time than that, and one that has less keeps it', async (t) => {
  const { server } = await connected(t)
  const lingering = new Lingering(server, { ms: 1000, bytes: 1000 })
  lingering.hurry(5000)
  lingering.hurry(500)
  mock.timers.tick(499)
  t.notOk(server.destroyed)
  mock.timers.tick(1)
  t.ok(server.destroyed)
})

t.test('attack: connections that send without end are read no faster than a rate that all share', async (t) => {
  const flooded: Socket[] = []
  for (let i = 0; i < 8; i++) {
    const { client, server } = await connected(t, { isFirst: i === 0 })
    client.resume()
    client.write(Buffer.alloc(32_000_000))
    flooded.push(server)
    new Lingering(server, { ms: 3_600_000, bytes: 16_000_000 })
  }
  while (!flooded.every((server) => server.isPaused())) await nextTurn()
  const read = flooded.reduce((sum, { bytesRead }) => sum + bytesRead, 0)
  t.ok(read < 16_000_000, `${read} bytes of 128,000,000, for which they have rooms`)
})
