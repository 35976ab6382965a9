import { closeCodes } from '../../../lib/close-codes.ts'
import type { ErrorCode, KasError } from '../../../lib/errors.ts'
import type { HttpResponseHeader } from '../../../proto/http/http-message.ts'
import type { Exchange } from './http/exchange.ts'
import { encodeStatus, type Status } from './response/status.ts'
import { errorStream, lastData, SpdyBoundaries } from './spdy-frames.ts'
import { statusEvent, watchFormat } from './watch/resume/watch-format.ts'
import type { Boundaries } from './watch/resume/watch-frames.ts'
import { closeFrame, MessageBoundaries, opcodes, serverFrame } from './websocket/server-frames.ts'

/** A message that ends a stream and carries the reason to its client. */
export interface LastMessage {
  /** boundaries behind which it may be sent */
  readonly boundaries: Boundaries
  /** @param status - status with which kas would answer in place of the stream */
  of(error: KasError, status: Status): Promise<Uint8Array>
}

/** Protocols of commands in pods: over WebSocket each message of kubectl and API server begins with its channel. */
const channelProtocols: ReadonlySet<string> = new Set(['v4.channel.k8s.io', 'v5.channel.k8s.io'])
const errorChannel = 3

/**
 * Returns the last message for an answer with this head; undefined: the stream has no place for one.
 *
 * @param asked - as in Exchange
 */
export function lastMessageOf(asked: Exchange['asked'], head: HttpResponseHeader): LastMessage | undefined {
  if (head.statusCode === 101) return ofUpgrade(head.header)
  const format = asked === 'watch' ? watchFormat(head) : undefined
  return format && { boundaries: format.boundaries(), of: (_, status) => statusEvent(format, status) }
}

function ofUpgrade(header: HttpResponseHeader['header']): LastMessage | undefined {
  const first = (name: string) => header.find(([other]) => other.toLowerCase() === name)?.[1][0] ?? ''
  const protocol = first('upgrade').toLowerCase()
  if (protocol === 'websocket') return ofWebSocket(first('sec-websocket-protocol'))
  const isCommand = protocol === 'spdy/3.1' && channelProtocols.has(first('x-stream-protocol-version'))
  if (!isCommand) return undefined
  return { boundaries: new SpdyBoundaries(), of: async (_, status) => lastData(errorStream, encoded(status)) }
}

function ofWebSocket(protocol: string): LastMessage {
  const boundaries = new MessageBoundaries()
  if (!channelProtocols.has(protocol))
    return { boundaries, of: async ({ code, message }) => closeFrame(closeCodeOf(code), message) }
  const onChannel = (status: Status) => Buffer.concat([Buffer.of(errorChannel), encoded(status)])
  return {
    boundaries,
    // with another code kubectl ignores the channel's message
    of: async (_, status) =>
      Buffer.concat([serverFrame(opcodes.binary, onChannel(status)), closeFrame(closeCodes.normal, '')]),
  }
}

/** Returns the close code: a caller that lost access violates the policy. */
function closeCodeOf(code: ErrorCode): number {
  if (code === 'SHUTTING_DOWN') return closeCodes.goingAway
  return code === 'TUNNEL_LOST' ? closeCodes.internalError : closeCodes.policyViolation
}

function encoded(status: Status): Buffer {
  return Buffer.from(encodeStatus('application/json', status))
}
