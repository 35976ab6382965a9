/**
 * Replaces an API server by one with an endless log: `…/log` never ends, all else is one small object. A program of its
 * own. Argument: JSON of EndlessApiOptions.
 */

import { readFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { createServer } from 'node:https'

export interface EndlessApiOptions {
  readonly port: number
  /** paths, PEM */
  readonly certificateFile: string
  readonly keyFile: string
}

/** The answer of `/stats`. */
export interface EndlessApiStats {
  readonly readers: number
  /** bytes of all logs so far */
  readonly sentBytes: number
}

const { port, certificateFile, keyFile }: EndlessApiOptions = JSON.parse(process.argv[2] as string)
const small = JSON.stringify({ kind: 'ConfigMap', apiVersion: 'v1', data: { text: 'x'.repeat(1024) } })
const line = `2026-01-01T00:00:00.000000000Z ${'a line of a log '.repeat(6)}\n`
const lines = Buffer.from(line.repeat(256))

let readers = 0
let sentBytes = 0

function sendForEver(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/plain' })
  readers++
  response.on('close', () => {
    readers--
  })
  const write = () => {
    if (response.destroyed) return
    sentBytes += lines.length
    if (response.write(lines)) setImmediate(write)
    else response.once('drain', write)
  }
  write()
}

const options = { cert: readFileSync(certificateFile), key: readFileSync(keyFile) }
const server = createServer(options, (request, response) => {
  if (request.url?.includes('/log?')) return sendForEver(response)
  const stats: EndlessApiStats = { readers, sentBytes }
  const body = request.url === '/stats' ? JSON.stringify(stats) : small
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length }).end(body)
})
server.listen(port, '127.0.0.1')
