/** Bare bytes, the agent's side: dials the server, serves HTTP/2 on that connection, and calls the API server. */
import { readFileSync } from 'node:fs'
import { performServerHandshake } from 'node:http2'
import { Agent, request } from 'node:https'
import { connect } from 'node:net'

const windowBytes = 16 * 1024 * 1024
const { agentsPort, apiServer, ca, cert, key } = JSON.parse(process.argv[2] as string) as Record<string, string>
const { hostname, port } = new URL(apiServer as string)
const read = (file?: string) => (file ? readFileSync(file) : undefined)
const agent = new Agent({ keepAlive: true, ca: read(ca), cert: read(cert), key: read(key) })

const socket = connect({ port: Number(agentsPort), host: '127.0.0.1', noDelay: true }, () => {
  const session = performServerHandshake(socket, { settings: { initialWindowSize: windowBytes } })
  session.setLocalWindowSize(windowBytes)
  session.on('stream', (stream, headers) => {
    const call = request({ agent, hostname, port, method: headers[':method'], path: headers[':path'] }, (response) => {
      const { 'content-type': type, 'content-length': length } = response.headers
      stream.respond({
        ':status': response.statusCode,
        ...(type ? { 'content-type': type } : {}),
        ...(length ? { 'content-length': length } : {}),
      })
      response.pipe(stream)
    })
    stream.pipe(call)
  })
  process.send?.('ready')
})
process.on('disconnect', () => process.exit())
