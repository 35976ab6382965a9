import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import type { TornDown } from './processes.ts'

export interface ConnectProxy {
  readonly url: string
  /** targets that it was asked for: `host:port` */
  readonly asked: string[]
}

/**
 * A proxy for CONNECT, which answers plain requests with its refusal too.
 *
 * @param takes - a port of this machine, to which all connections go; a status line for refusals; undefined: it never
 * answers
 */
export async function startConnectProxy(t: TornDown, takes: number | string | undefined): Promise<ConnectProxy> {
  const asked: string[] = []
  const sockets = new Set<Socket>()
  const keep = (socket: Socket) => sockets.add(socket.on('error', () => undefined))
  const server = createServer((_, response) => {
    if (typeof takes === 'string') response.writeHead(Number.parseInt(takes, 10)).end()
  }).on('connect', (request, client: Socket) => {
    keep(client)
    asked.push(request.url ?? '')
    if (takes === undefined) return
    if (typeof takes === 'string') return void client.end(`HTTP/1.1 ${takes}\r\n\r\n`)
    const target = connect(takes, '127.0.0.1', () => {
      client.write('HTTP/1.1 200 Connection established\r\n\r\n')
      target.pipe(client).pipe(target)
    })
    keep(target)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { asked, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}
