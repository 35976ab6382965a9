import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { createServer, connect as dial } from 'node:tls'
import t, { type Test } from 'tap'
import { createReplicaIdentity } from '../../../src/kas/peers/replica-identity.ts'
import { TlsHandshakes } from '../../../src/lib/tls-handshakes.ts'

async function listen(t: Test, handshakeTimeout: number) {
  const { certificatePem: cert, keyPem: key } = await createReplicaIdentity()
  const server = createServer({ cert, key, handshakeTimeout })
  const handshakes = new TlsHandshakes(server, handshakeTimeout)
  server.listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { server, handshakes, port }
}

/** Connects and sends nothing. */
async function connectSilently(t: Test, port: number) {
  const socket = connect({ port, host: '127.0.0.1' })
  t.teardown(() => socket.destroy())
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  return socket.resume()
}

t.test('a handshake that takes too long ends', async (t) => {
  const { server, port } = await listen(t, 20)
  const errors: (string | undefined)[] = []
  server.on('tlsClientError', ({ code }: NodeJS.ErrnoException) => errors.push(code))
  await once(await connectSilently(t, port), 'close')
  t.same(errors, ['ERR_TLS_HANDSHAKE_TIMEOUT'])
})

t.test('what is connected by TLS stays when the others are ended', async (t) => {
  const { server, handshakes, port } = await listen(t, 60_000)
  const silent = await connectSilently(t, port)
  const socket = dial({ port, host: '127.0.0.1', rejectUnauthorized: false })
  t.teardown(() => socket.destroy())
  const [[accepted]] = await Promise.all([once(server, 'secureConnection'), once(socket, 'secureConnect')])
  const closed = once(silent, 'close')
  handshakes.destroy()
  await closed
  accepted.end('still here')
  t.equal(String((await once(socket, 'data'))[0]), 'still here')
})
