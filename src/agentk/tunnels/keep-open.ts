import { type Metadata, noMetadata } from '../../call/call.ts'
import { Backoff } from '../../lib/backoff.ts'
import type { Clock } from '../../lib/clock.ts'
import { Code, KasError } from '../../lib/errors.ts'
import { pause } from '../../lib/pause.ts'
import type { ClientSession, ClientStream } from '../../proto/grpc/client-session.ts'
import type { KasConnections } from './kas-connections.ts'

/** Upstream's (doc/reference/tunnel-protocol.md 2.5). */
const backoffOptions = { firstMs: 10_000, maxMs: 300_000, factor: 2, jitter: 1, resetMs: 600_000 }
/** A stream that kas ends at once, without an error, is opened again after so long. ms */
const defaultRestMs = 1000
/** A connection that stays, and refuses one stream after another: from then on it is a failure. */
const maxRefusedInARow = 5

export interface KeepOpenComponents {
  readonly kas: Pick<KasConnections, 'session' | 'metadata'>
  readonly clock: Clock
  readonly random: () => number
}

/**
 * How `read` has ended. 'served': the stream has brought what it was opened for, the next one is opened at once;
 * 'ended': kas ends it, or has; an error: what was received is not usable, or why kas has ended it.
 */
export type StreamEnd = 'served' | 'ended' | KasError

export interface KeptStream {
  readonly method: string
  /** beside what goes with each call */
  readonly metadata?: Metadata
  /** stock kas does not serve the method; ours cancels such streams so that they are opened again */
  readonly isOurs?: boolean
  readonly restMs?: number
  /** One stream, from its opening to its end. What it throws is given to `failed`. */
  read(stream: ClientStream, session: ClientSession): Promise<StreamEnd>
  /** kas has ended a stream with this error, or `read` has */
  refused(error: KasError): void
  /** a stream could not be opened or read */
  failed(error: unknown): void
}

/**
 * Keeps a stream to kas open until the signal aborts: at once on the next connection when its own ends, after a rest when
 * kas ends it without an error, or the connection left at that moment, and after a growing pause when it fails, or when a
 * connection that stays refuses stream after stream. That kas cancels it, or finds it too long, is no failure to report.
 * Never rejects.
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
      if (!isLeaving || thrown) await pause(restMs, clock, signal) // the next connection is near
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
  /** `end` is made of it */
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
