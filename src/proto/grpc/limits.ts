/** Bounds of a connection and its streams. Bytes unless a name says otherwise. */

export interface SessionLimits {
  /** messages above it are refused, in both directions, and only on their call (gRPC's own default) */
  readonly maxMessageBytes: number
  /** most unread bytes of a reader that stopped, at this hop */
  readonly streamWindowBytes: number
  /** the same for a peer that is not authenticated yet, until `StreamWindow.widen` */
  readonly strangerWindowBytes: number
  /** most unread bytes of all streams of a connection */
  readonly connectionWindowBytes: number
  /** most open streams of a connection */
  readonly maxConcurrentStreams: number
  /** streams that may be open at first: see StreamQuota */
  readonly firstStreams: number
  /** head of a call, as decoded from HPACK */
  readonly maxHeaderBytes: number
  /** reset streams in a burst, above which node:http2 ends a session; raise it for authenticated peers only */
  readonly streamResetBurst: number
  /** reset streams a second, above which node:http2 ends a session */
  readonly streamResetRate: number
  /** bound of refused streams, above which a session ends */
  readonly maxRejectedStreams: number
  /**
   * bound of invalid frames over the life of a session, above which it ends. These are heads and trailers that HTTP/2
   * forbids, and streams that crossed a lower bound on their way. Each of them ends its own stream.
   */
  readonly maxInvalidFrames: number
  /** true: streams are read before their handler asks; only for peers that are authenticated already */
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
 * Bounds between replicas, which are authenticated. A burst of one tenant must not end the connection that carries the
 * calls of all.
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

/**
 * Window of a stream on a long connection. Its owner's budget must have room for it, and then all streams of the
 * connection have it.
 */
export const wideWindowBytes = 16 * 1024 * 1024
/** Window of a connection with wide streams, for all of them together. */
export const wideConnectionWindowBytes = 4 * wideWindowBytes

/** Unread bytes of one connection above which each stream's window is narrow, until half of them are read. */
export const pressureBytes = 13 * 1024 * 1024
/** Narrow window of a stream. */
export const narrowWindowBytes = 64 * 1024

/** Bound above which node:http2 refuses new streams; the windows above are the real bound. MB */
export const maxSessionMemoryMb = 4096

/** Unread bytes of received messages above which the stream is paused, so that its window fills. */
export const maxUnreadBytes = 64 * 1024

/**
 * Size up to which a packed message is unpacked at once, which takes a tenth of a millisecond; larger ones in another
 * thread.
 */
export const unpackedAtOnceBytes = 64 * 1024

/** Unpacked bytes of one connection's larger messages that their readers have not passed on. */
export const maxUnpackedBytes = 16 * 1024 * 1024

/** Cost of a waiting message beside its bytes: empty ones are not free. */
export const unreadMessageBytes = 128

/** Cost of a waiting piece of a WebSocket's byte stream beside its bytes: pieces of one byte are not free. */
export const waitingPieceBytes = 256

/** Unsent bytes above which a sender waits for the connection. */
export const maxUnsentBytes = 192 * 1024

/** The same bound while all streams of one agent have more than `wideUnsentBytes` unsent. */
export const narrowUnsentBytes = 16 * 1024
export const wideUnsentBytes = 2 * 1024 * 1024

/**
 * Size of one WebSocket message with a connection's bytes: with its head it fills four TLS records. The other side
 * buffers a whole message before it reads it, and accepts 10 MiB at most (doc/reference/tunnel-protocol.md 2.2). Node
 * writes a whole window at once.
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
