/**
 * The minimum: cost of an agent's connection and its three open streams on node:http2 alone. Sends its port over IPC.
 * It reads all bytes, keeps none, and answers configuration streams with a head, since the agents wait for that.
 */
import { performServerHandshake } from 'node:http2'
import { type AddressInfo, createServer } from 'node:net'
import { defaultLimits, http2Settings } from '../../src/proto/grpc/limits.ts'
import { writeHints } from '../../src/proto/placement.ts'
import { connectMethod } from '../../src/proto/reverse-tunnel.ts'

const head = { ':status': 200, 'content-type': 'application/grpc+proto' }
const hints = Object.fromEntries(
  Object.entries(writeHints({ pingIntervalMs: 5000 })).map(([name, values]) => [name, [...values]]),
)

const server = createServer({ noDelay: true }, (socket) => {
  const session = performServerHandshake(socket, { settings: http2Settings(defaultLimits) })
  session.on('error', () => undefined)
  session.on('stream', (stream, { ':path': method }) => {
    stream.on('error', () => undefined)
    stream.resume()
    if (method !== connectMethod) stream.respond({ ...head, ...hints })
  })
})
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
