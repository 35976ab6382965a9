import { once } from 'node:events'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { certificateFiles, tlsServers } from '../../support/tls-servers.ts'

/** A peer that freezes during a TLS handshake, at each server that speaks TLS with strangers. */

for (const [name, start] of Object.entries(tlsServers)) {
  t.test(`server ${name} that stops does not wait for it`, { timeout: 10_000 }, async (t) => {
    const { certificate } = await certificateFiles(t)
    const { port, server } = await start(t, certificate)
    const [silent] = [await connectTo(t, port), await connectTo(t, port, 'no TLS')]
    const closed = once(silent, 'close')
    await Promise.all([server.stop(new AbortController().signal), closed])
    t.pass('and it is ended')
  })
}

/** Resolves when the connection is made; with `bytes`, when the server has answered them and closed it. */
async function connectTo(t: Test, port: number, bytes?: string) {
  const socket = connect({ port, host: '127.0.0.1' })
  t.teardown(() => socket.destroy())
  socket.on('error', () => undefined).resume()
  await once(socket, 'connect')
  if (bytes) {
    socket.write(bytes)
    await once(socket, 'close')
  }
  return socket
}
