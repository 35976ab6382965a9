/** Stands in for an API server where none has what is asked for: 1 KiB, and 64 MiB, over HTTPS. */

import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'

const { ca, cert, key } = JSON.parse(process.argv[2] as string) as Record<'ca' | 'cert' | 'key', string>
const small = JSON.stringify({ kind: 'ConfigMap', data: { text: 'x'.repeat(1024) } })
const chunk = randomBytes(64 * 1024)
const chunks = 1024

const server = createServer(
  { ca: readFileSync(ca), cert: readFileSync(cert), key: readFileSync(key) },
  (request, response) => {
    if (request.url !== '/64mib') {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': small.length }).end(small)
      return
    }
    response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': chunk.length * chunks })
    let left = chunks
    const write = () => {
      while (left > 0) {
        left--
        if (!response.write(chunk)) {
          response.once('drain', write)
          return
        }
      }
      response.end()
    }
    write()
  },
)
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }))
process.on('disconnect', () => process.exit())
