import { once } from 'node:events'
import { connect, type TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { certificateFiles, type Started, tlsServers } from '../../support/tls-servers.ts'

/** A TLS 1.2 client asks for a second handshake, at each server that speaks TLS with strangers. */

for (const [name, start] of Object.entries(tlsServers)) {
  t.test(`server ${name} begins no second handshake on a connection`, { timeout: 10_000 }, async (t) => {
    const { certificate, replace } = await certificateFiles(t)
    const { port } = await start(t, certificate)
    t.equal(await renegotiate(t, port), 'ERR_SSL_NO_RENEGOTIATION')
    await replace()
    t.equal(await renegotiate(t, port), 'ERR_SSL_NO_RENEGOTIATION', 'with a certificate that was read later, too')
  })
}

/** @returns error code of the second handshake; `renegotiated`: it succeeded */
async function renegotiate(t: Test, port: Started['port']): Promise<string | undefined> {
  const ALPNProtocols = ['h2', 'http/1.1'] // without ALPN 8153 closes the connection
  const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false, maxVersion: 'TLSv1.2', ALPNProtocols })
  t.teardown(() => socket.destroy())
  socket.resume() // skips bytes that the server sends first
  await once(socket, 'secureConnect')
  return await outcome(socket)
}

function outcome(socket: TLSSocket): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>()
  socket.on('error', ({ code }: NodeJS.ErrnoException) => resolve(code))
  socket.on('close', () => resolve('closed'))
  socket.renegotiate({}, (error) => resolve(error ? (error as NodeJS.ErrnoException).code : 'renegotiated'))
  return promise
}
