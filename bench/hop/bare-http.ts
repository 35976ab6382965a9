import { createServer, type RequestListener } from 'node:http'
import type { ClientHttp2Session } from 'node:http2'
import type { AddressInfo } from 'node:net'

export const windowBytes = 16 * 1024 * 1024

/** Starts the callers' side of bare bytes. */
export function startBareHttp(carry: RequestListener, listening: (port: number) => void): void {
  const http = createServer({ noDelay: true }, carry)
  http.listen(0, '127.0.0.1', () => listening((http.address() as AddressInfo).port))
}

/** Carries each HTTP request on one stream of `session`. */
export function carryOnStreams(session: () => ClientHttp2Session): RequestListener {
  return (request, response) => {
    const stream = session().request({ ':method': request.method, ':path': request.url })
    stream.on('response', ({ ':status': status, 'content-type': type, 'content-length': length }) => {
      response.writeHead(status as number, {
        ...(type ? { 'content-type': type } : {}),
        ...(length ? { 'content-length': length } : {}),
      })
      stream.pipe(response)
    })
    request.pipe(stream)
  }
}
