import { closeCodes } from '../../../lib/close-codes.ts'
import type { ErrorCode, KasError } from '../../../lib/errors.ts'
import type { HttpResponseHeader } from '../../../proto/http/http-message.ts'
import type { Exchange } from './http/exchange.ts'
import { encodeStatus, type Status } from './response/status.ts'
import { errorStream, lastData, SpdyBoundaries } from './spdy-frames.ts'
import { statusEvent, watchFormat } from './watch/resume/watch-format.ts'
import type { Boundaries } from './watch/resume/watch-frames.ts'
import { closeFrame, MessageBoundaries, opcodes, serverFrame } from './websocket/server-frames.ts'

/** What a stream can end with so that its client reads why. */
export interface LastMessage {
  /** behind which it may stand */
  readonly boundaries: Boundaries
  /** @param status - what kas would answer with in place of the stream */
  of(error: KasError, status: Status): Promise<Uint8Array>
}

/** Of commands in pods, as kubectl and the API server speak: over WebSocket the first byte of each message is the channel. */
const channelProtocols: ReadonlySet<string> = new Set(['v4.channel.k8s.io', 'v5.channel.k8s.io'])
const errorChannel = 3

/**
 * Of the answer with this head; undefined: it has no place for any.
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
    // after another code kubectl says nothing of what came on the channel
    of: async (_, status) =>
      Buffer.concat([serverFrame(opcodes.binary, onChannel(status)), closeFrame(closeCodes.normal, '')]),
  }
}

/** Of who may no longer it is his fault. */
function closeCodeOf(code: ErrorCode): number {
  if (code === 'SHUTTING_DOWN') return closeCodes.goingAway
  return code === 'TUNNEL_LOST' ? closeCodes.internalError : closeCodes.policyViolation
}

function encoded(status: Status): Buffer {
  return Buffer.from(encodeStatus('application/json', status))
}
