import { KasError } from '../../../../lib/errors.ts'
import { errorAnswer } from '../response/error-answer.ts'
import type { Connection } from './connection.ts'

/** Handles bytes that node's parser refuses: they are no HTTP request, and have no exchange. */

/** An error of node's parser, from 'clientError'. */
export interface ParserError extends Error {
  readonly code?: string
  /** llhttp's text, which quotes nothing of the request */
  readonly reason?: string
  /** bytes that were parsed when it failed */
  readonly rawPacket?: Buffer
  /** number of these bytes before the fault */
  readonly bytesParsed?: number
}

const statusTexts: Record<number, string> = {
  400: 'Bad Request',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  413: 'Content Too Large',
  431: 'Request Header Fields Too Large',
}
/** Form of a request line with a method that node does not know. */
const requestLine = /^([\w!#$%&'*+.^`|~-]{1,64}) [!-~]+ HTTP\/1\.[01]\r\n/
/** Bytes in which a request line must end. */
const maxLineBytes = 8192

/** Returns the error for the client; undefined: the client only left. */
export function malformed(error: ParserError): KasError | undefined {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new KasError({ code: 'HEAD_TOO_LARGE' })
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new KasError({ code: 'HEAD_TOO_SLOW' })
    default:
      if (!error.code?.startsWith('HPE_')) return undefined
      return unknownMethod(error) ?? new KasError({ code: 'BAD_REQUEST', detail: error.reason ?? 'not HTTP' })
  }
}

function unknownMethod({ code, rawPacket, bytesParsed = 0 }: ParserError): KasError | undefined {
  if (code !== 'HPE_INVALID_METHOD' || !rawPacket) return undefined
  const start = bytesParsed === 0 ? 0 : rawPacket.lastIndexOf('\n', bytesParsed - 1) + 1
  const [, method] = requestLine.exec(rawPacket.toString('latin1', start, start + maxLineBytes)) ?? []
  return method === undefined ? undefined : new KasError({ code: 'METHOD_NOT_ALLOWED', method })
}

/**
 * Answers a malformed request with a `Status` if the client can know to which request it belongs. Closes the
 * connection, because the beginning of the next request is unknown. Complete requests before it are answered first.
 */
export function refuseMalformed(connection: Connection, error: KasError, product: string): void {
  const { socket, exchanges, meter } = connection
  connection.broken = true
  connection.closeWhenIdle = true
  meter?.stop()
  socket.removeAllListeners('data').resume() // nothing more is parsed
  const partial = [...exchanges].find((exchange) => !exchange.isRequestRead)
  if (partial?.begun) return void socket.destroy()
  if (partial) partial.leave(error)
  if (exchanges.size === 0 || (partial && exchanges.size === 1)) answer(connection, error, product)
  else if (partial) socket.destroy()
}

function answer(connection: Connection, error: KasError, product: string): void {
  const { socket } = connection
  if (!socket.writable) return void socket.destroy()
  const request = { failedAt: 'entry', accept: [], delivery: 'none', traceId: undefined, isDiscovery: false } as const
  const { code, headers, body } = errorAnswer(error, request)
  const lines = [`HTTP/1.1 ${code} ${statusTexts[code] ?? ''}`, `Server: ${product}`]
  for (let i = 0; i < headers.length; i += 2) lines.push(`${headers[i]}: ${headers[i + 1]}`)
  lines.push(`Content-Length: ${Buffer.byteLength(body)}`, 'Connection: close')
  socket.write(`${lines.join('\r\n')}\r\n\r\n${body}`)
  connection.end()
}
