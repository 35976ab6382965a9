import { encodeHttpResponse } from '../../src/proto/http/http-over-grpc.ts'
import { encodeConnectRequest } from '../../src/proto/reverse-tunnel.ts'
import type { FakeTunnel } from './fake-agent.ts'

/** Answers one request of HTTP with 200 and a body. */
export async function serveOnce(tunnel: FakeTunnel): Promise<void> {
  for (let message = await tunnel.next(); message; message = await tunnel.next()) {
    if (message.kind === 'requestInfo') tunnel.send(encodeConnectRequest.header({}))
    if (message.kind !== 'closeSend') continue
    tunnel.message(encodeHttpResponse.header({ statusCode: 200, status: '200 OK', header: [] }))
    tunnel.message(encodeHttpResponse.data(Buffer.from('from the cluster')))
    tunnel.message(encodeHttpResponse.trailer)
    tunnel.send(encodeConnectRequest.trailer({}))
    tunnel.stream.end()
  }
}
