import { type Metadata, noMetadata } from '../../call/call.ts'
import { Backoff } from '../../lib/backoff.ts'
import type { Clock } from '../../lib/clock.ts'
import { Code, KasError } from '../../lib/errors.ts'
import { pause } from '../../lib/pause.ts'
import type { ClientSession, ClientStream } from '../../proto/grpc/client-session.ts'
import type { KasConnections } from './kas-connections.ts'

/** Upstream's back-off, in ms (doc/reference/tunnel-protocol.md 2.5). */
const backoffOptions = { firstMs: 10_000, maxMs: 300_000, factor: 2, jitter: 1, resetMs: 600_000 }
/** Pause, in ms, before a stream is opened again that kas has ended at once without an error. */
const defaultRestMs = 1000
/** Streams that a connection which stays may refuse in a row. One more is a failure. */
const maxRefusedInARow = 5

export interface KeepOpenComponents {
  readonly kas: Pick<KasConnections, 'session' | 'metadata'>
  readonly clock: Clock
  readonly random: () => number
}

/**
 * End of `read`. 'served': the stream has brought what it was for; the next one opens at once. 'ended': kas ends the
 * stream. An error: the received message is not usable, or kas has ended the stream with it.
 */
export type StreamEnd = 'served' | 'ended' | KasError

export interface KeptStream {
  readonly method: string
  /** besides the metadata of each call */
  readonly metadata?: Metadata
  /** A stock kas does not serve the method; this kas cancels such streams so that they are opened again. */
  readonly isOurs?: boolean
  readonly restMs?: number
  /** Reads one stream, from its opening to its end. An error that it throws goes to `failed`. */
  read(stream: ClientStream, session: ClientSession): Promise<StreamEnd>
  /** called when kas or `read` has ended a stream with this error */
  refused(error: KasError): void
  /** called when a stream could not be opened or read */
  failed(error: unknown): void
}

/**
 * Keeps a stream to kas open until the signal aborts. Never rejects.
 *
 * The next stream opens at once if the connection is being left. It opens after a rest if kas ends the stream without
 * an error, or if the connection is lost. It opens after a growing pause if the stream fails, or if a connection that
 * stays refuses stream after stream. The codes CANCELLED and DEADLINE_EXCEEDED are not reported as a failure.
 */
export async function keepOpen(components: KeepOpenComponents, kept: KeptStream, signal: AbortSignal): Promise<void> {
  const { clock } = components
  const { restMs = defaultRestMs, isOurs = false } = kept
  const backoff = new Backoff(components, backoffOptions)
  let refusedInARow = 0
  while (!signal.aborted) {
    const { end, thrown, openedAt, isLeaving } = await openOnce(components, kept, signal)
    if (signal.aborted) return
    const isRefused = typeof end !== 'string' && end.code === 'TUNNEL_LOST' && !isLeaving && !thrown
    refusedInARow = isRefused ? refusedInARow + 1 : 0
    if (end === 'served') backoff.reset()
    else if (end !== 'ended' && end.code === 'TUNNEL_LOST' && refusedInARow <= maxRefusedInARow) {
      if (!isLeaving || thrown) await pause(restMs, clock, signal) // without a pause, as the next connection is near
    } else if (isLeaving && !thrown) continue
    else if (end === 'ended' || (isOurs && end.grpcCode === Code.CANCELLED && !thrown)) {
      const leftMs = restMs - (clock.now() - openedAt)
      if (leftMs > 0) await pause(leftMs, clock, signal)
    } else {
      if (thrown) kept.failed(thrown.error)
      else if (!isExpected(end.grpcCode, isOurs)) kept.refused(end)
      await backoff.wait(signal)
    }
  }
}

interface Opened {
  readonly end: StreamEnd
  /** the error that `end` was made from */
  readonly thrown?: { readonly error: unknown }
  readonly openedAt: number
  /** the connection takes no more streams */
  readonly isLeaving: boolean
}

async function openOnce(
  { kas, clock }: KeepOpenComponents,
  { method, metadata = noMetadata, read }: KeptStream,
  signal: AbortSignal,
): Promise<Opened> {
  let openedAt = clock.now()
  let session: ClientSession | undefined
  let stream: ClientStream | undefined
  try {
    session = await kas.session(signal)
    openedAt = clock.now()
    stream = session.open({ method, metadata: { ...kas.metadata(), ...metadata }, signal })
    let end = await read(stream, session)
    if (end === 'ended') end = (await stream.done).error ?? 'ended'
    else if (end !== 'served') stream.cancel(end)
    return { end, openedAt, isLeaving: session.draining }
  } catch (error) {
    stream?.cancel()
    return { end: KasError.from(error), thrown: { error }, openedAt, isLeaving: session?.draining ?? false }
  }
}

function isExpected(code: number, isOurs: boolean): boolean {
  return code === Code.CANCELLED || code === Code.DEADLINE_EXCEEDED || (isOurs && code === Code.UNIMPLEMENTED)
}
