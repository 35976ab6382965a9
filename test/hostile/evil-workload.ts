import type { IncomingMessage, ServerResponse } from 'node:http'

/** Path of the evil tenant's workload, in a cluster that a good tenant's agentk serves. */
export const workloadPath = '/api/v1/namespaces/evil/services/evil/proxy/'

/** headers with a name each, less than the 1 MiB that agentk reads */
const headers = Array.from({ length: 60_000 }, (_, i) => `x${i.toString(36)}: y\r\n`).join('')
const answer = Buffer.from(`HTTP/1.1 200 OK\r\n${headers}Connection: close\r\nContent-Length: 0\r\n\r\n`)

/** Answers with as many headers as fit, as any workload may. */
export function evilWorkload(_request: IncomingMessage, response: ServerResponse): void {
  response.socket?.end(answer)
}
