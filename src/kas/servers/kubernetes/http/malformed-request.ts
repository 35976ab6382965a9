import type { Socket } from 'node:net'
import { KasError } from '../../../../lib/errors.ts'
import type { Connection } from './connection.ts'

/** What node's parser refuses: bytes that are no HTTP request, and so no exchange. */

/** An error of node's parser, from 'clientError'. */
export interface ParserError extends Error {
  readonly code?: string
  /** llhttp's words, which quote nothing of the request */
  readonly reason?: string
}

const statusTexts: Record<number, string> = {
  400: 'Bad Request',
  408: 'Request Timeout',
  413: 'Content Too Large',
  431: 'Request Header Fields Too Large',
}

/** Undefined: the client only left. */
export function malformed(error: ParserError): KasError | undefined {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new KasError({ code: 'HEAD_TOO_LARGE' })
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new KasError({ code: 'HEAD_TOO_SLOW' })
    default:
      if (!error.code?.startsWith('HPE_')) return undefined
      return new KasError({ code: 'BAD_REQUEST', detail: error.reason ?? 'not HTTP' })
  }
}

/**
 * Answers a malformed request where the client can know which one is meant, and closes the connection: where the next
 * one begins is unknown. Requests before it that are whole are answered first.
 */
export function refuseMalformed(connection: Connection, error: KasError, product: string): void {
  const { socket, exchanges } = connection
  connection.broken = true
  connection.closeWhenIdle = true
  const partial = [...exchanges].find((exchange) => !exchange.isRequestRead)
  if (partial?.begun) return void socket.destroy()
  if (partial) partial.leave(error)
  if (exchanges.size === 0 || (partial && exchanges.size === 1)) answer(socket, error, product)
  else if (partial) socket.destroy()
}

function answer(socket: Socket, error: KasError, product: string): void {
  if (!socket.writable) return void socket.destroy()
  const status = `${error.httpStatus} ${statusTexts[error.httpStatus] ?? ''}`
  const body = `${status}: ${error.message}\n`
  const head = [
    `HTTP/1.1 ${status}`,
    'Content-Type: text/plain; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    `Server: ${product}`,
    'Kas-Delivery: none',
    'Connection: close',
  ]
  socket.write(`${head.join('\r\n')}\r\n\r\n${body}`)
  socket.destroySoon()
}
