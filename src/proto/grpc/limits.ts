/** The bounds of a connection and its streams. Bytes unless a name says otherwise. */

export interface SessionLimits {
  /** larger messages are refused, on that call only, in both directions (gRPC's own default) */
  readonly maxMessageBytes: number
  /** what a reader that stopped holds at the most, at this hop */
  readonly streamWindowBytes: number
  /** the same, until `StreamWindow.widen`: of a peer that has not shown yet who it is */
  readonly strangerWindowBytes: number
  readonly connectionWindowBytes: number
  readonly maxConcurrentStreams: number
  /** as many of them may be open at first: see StreamQuota */
  readonly firstStreams: number
  /** head of a call, as HPACK decodes it */
  readonly maxHeaderBytes: number
  /** node:http2 ends a session beyond this many reset streams in a burst; raise it for authenticated peers only */
  readonly streamResetBurst: number
  /** and this many a second */
  readonly streamResetRate: number
  /** refused streams that a session survives */
  readonly maxRejectedStreams: number
  /**
   * Frames with a head or trailers that HTTP/2 forbids, and streams that crossed a lower bound on their way, each of
   * which ends its own stream; more than these, over the life of a session, end that.
   */
  readonly maxInvalidFrames: number
  /** streams are read before their handler asks: only where the peer is authenticated already */
  readonly readAhead: boolean
}

export const defaultLimits: SessionLimits = {
  maxMessageBytes: 4 * 1024 * 1024,
  streamWindowBytes: 1024 * 1024,
  strangerWindowBytes: 1024 * 1024,
  connectionWindowBytes: 16 * 1024 * 1024,
  maxConcurrentStreams: 20_000,
  firstStreams: 20_000,
  maxHeaderBytes: 64 * 1024,
  streamResetBurst: 1000,
  streamResetRate: 33,
  maxRejectedStreams: 100,
  maxInvalidFrames: 1000,
  readAhead: false,
}

/**
 * Between replicas, which are authenticated: what one tenant does there, even in a burst, must not end the connection
 * that carries the calls of all.
 */
export const replicaLimits: SessionLimits = {
  ...defaultLimits,
  maxConcurrentStreams: 100_000,
  firstStreams: 100_000,
  streamResetBurst: 1_000_000,
  streamResetRate: 100_000,
  maxRejectedStreams: 100_000,
  maxInvalidFrames: 1_000_000,
  readAhead: true,
}

/** The window of a stream whose way is long, where its owner's budget has room for it; of its connection's streams then. */
export const wideWindowBytes = 16 * 1024 * 1024
/** Of a connection whose streams may be wide: all of them at once. */
export const wideConnectionWindowBytes = 4 * wideWindowBytes

/** Waits for the readers of one connection: beyond it, and until half of it is taken, each stream's window is narrow. */
export const pressureBytes = 13 * 1024 * 1024
/** That window. */
export const narrowWindowBytes = 64 * 1024

/** node:http2 refuses new streams beyond this; the windows above are the true bound. MB. */
export const maxSessionMemoryMb = 4096

/** Received messages that wait for their reader: beyond it the stream is paused, and its window fills. */
export const maxUnreadBytes = 64 * 1024

/** A packed message is unpacked at once up to here, which takes a tenth of a millisecond; else beside the event loop. */
export const unpackedAtOnceBytes = 64 * 1024

/** Messages of one connection that were larger, and that their readers have not handed on. */
export const maxUnpackedBytes = 16 * 1024 * 1024

/** What a received message costs beside its bytes while it waits: empty ones are not free. */
export const unreadMessageBytes = 128

/** What a piece of a WebSocket's byte stream costs beside its bytes while it waits: pieces of one byte are not free. */
export const waitingPieceBytes = 256

/** Sent bytes that wait for the connection: beyond it a sender waits. */
export const maxUnsentBytes = 192 * 1024

/** The same, while more than `wideUnsentBytes` of one agent wait on all of its streams. */
export const narrowUnsentBytes = 16 * 1024
export const wideUnsentBytes = 2 * 1024 * 1024

/**
 * One WebSocket message that carries a connection's bytes: with its head it fills four TLS records. The other side holds
 * it whole before it reads any of it, and takes 10 MiB at the most (doc/reference/tunnel-protocol.md 2.2); node writes a
 * whole window at once.
 */
export const webSocketMessageBytes = 64 * 1024 - 8

export function http2Settings(limits: SessionLimits) {
  return {
    initialWindowSize: Math.min(limits.streamWindowBytes, limits.strangerWindowBytes),
    maxConcurrentStreams: Math.min(limits.firstStreams, limits.maxConcurrentStreams),
    maxHeaderListSize: limits.maxHeaderBytes,
    enablePush: false,
  }
}
