/**
 * Bare bytes, the replica that has the agent: the shortest program on node:http2 that carries an HTTP request over the
 * same hops. The agent dials in and serves HTTP/2 on its own connection; each request is one stream on it. It has no
 * authentication, no protobuf, no log and no TLS between replicas: it is the limit to which kas is compared.
 */
import { type ClientHttp2Session, connect, createServer } from 'node:http2'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { carryOnStreams, startBareHttp, windowBytes } from './bare-http.ts'
import { lanePath, serveLane } from './bare-lanes.ts'

let agent: ClientHttp2Session | undefined
const toAgent = () => agent as ClientHttp2Session

const agents = createTcpServer({ noDelay: true }, (socket) => {
  const session = connect('http://agent', {
    createConnection: () => socket,
    settings: { initialWindowSize: windowBytes },
  })
  session.once('connect', () => session.setLocalWindowSize(windowBytes))
  session.on('error', () => socket.destroy())
  agent = session
})

const replicas = createServer({ settings: { initialWindowSize: windowBytes } })
replicas.on('session', (session) => session.setLocalWindowSize(windowBytes))
replicas.on('stream', (caller, { ':method': method, ':path': path }) => {
  if (path === lanePath) {
    caller.respond()
    serveLane(caller, toAgent)
    return
  }
  const stream = toAgent().request({ ':method': method, ':path': path })
  stream.on('response', ({ ':status': status, 'content-type': type, 'content-length': length }) => {
    caller.respond({
      ':status': status,
      ...(type ? { 'content-type': type } : {}),
      ...(length ? { 'content-length': length } : {}),
    })
    stream.pipe(caller)
  })
  caller.pipe(stream)
})

const port = (server: { address(): unknown }) => (server.address() as AddressInfo).port
agents.listen(0, '127.0.0.1', () =>
  replicas.listen(0, '127.0.0.1', () =>
    startBareHttp(carryOnStreams(toAgent), (httpPort) =>
      process.send?.({ agentsPort: port(agents), replicasPort: port(replicas), httpPort }),
    ),
  ),
)
process.on('disconnect', () => process.exit())
