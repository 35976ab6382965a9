/**
 * Bare bytes, the server's side: the shortest program on node:http2 that carries an HTTP request over the same hops.
 * The agent dials in and serves HTTP/2 on its own connection; each request is one stream on it. No authentication,
 * no protobuf, no log: the limit that kas is held against.
 */
import { createServer } from 'node:http'
import { type ClientHttp2Session, connect } from 'node:http2'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'

const windowBytes = 16 * 1024 * 1024
let agent: ClientHttp2Session | undefined

const agents = createTcpServer({ noDelay: true }, (socket) => {
  const session = connect('http://agent', {
    createConnection: () => socket,
    settings: { initialWindowSize: windowBytes },
  })
  session.once('connect', () => session.setLocalWindowSize(windowBytes))
  session.on('error', () => socket.destroy())
  agent = session
})

const http = createServer({ noDelay: true }, (request, response) => {
  const stream = (agent as ClientHttp2Session).request({ ':method': request.method, ':path': request.url })
  stream.on('response', ({ ':status': status, 'content-type': type, 'content-length': length }) => {
    response.writeHead(status as number, {
      ...(type ? { 'content-type': type } : {}),
      ...(length ? { 'content-length': length } : {}),
    })
    stream.pipe(response)
  })
  request.pipe(stream)
})

agents.listen(0, '127.0.0.1', () =>
  http.listen(0, '127.0.0.1', () => {
    const port = (server: { address(): unknown }) => (server.address() as AddressInfo).port
    process.send?.({ agentsPort: port(agents), httpPort: port(http) })
  }),
)
process.on('disconnect', () => process.exit())
