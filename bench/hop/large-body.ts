/** Replaces an API server where none has such content: 1 KiB, and 64 MiB in both directions, over HTTPS. */

import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { largeBytes, noise, text } from './contents.ts'

const { ca, cert, key } = JSON.parse(process.argv[2] as string) as Record<'ca' | 'cert' | 'key', string>
const small = JSON.stringify({ kind: 'ConfigMap', data: { text: 'x'.repeat(1024) } })

const server = createServer(
  { ca: readFileSync(ca), cert: readFileSync(cert), key: readFileSync(key) },
  (request, response) => {
    const chunk = request.url === '/64mib' ? noise : request.url === '/64mib-text' ? text : undefined
    if (!chunk) {
      const answer = () =>
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': small.length }).end(small)
      request.resume().once('end', answer)
      return
    }
    response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': largeBytes })
    let left = largeBytes / chunk.length
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
