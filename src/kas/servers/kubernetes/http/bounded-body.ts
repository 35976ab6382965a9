import type { Clock } from '../../../../lib/clock.ts'
import { KasError } from '../../../../lib/errors.ts'
import { abortable } from '../../../../lib/signals.ts'
import type { Exchange } from './exchange.ts'

export interface BodyBounds {
  readonly maxBytes: number
  /** time for all of the body to come, once reading begins. ms */
  readonly timeoutMs: number
  /** ends the wait; default: signal of the exchange */
  readonly signal?: AbortSignal
}

/**
 * Reads the body of a request to kas itself; the body is opened only when it is read.
 *
 * @param contentLength - 0: no body; -1: unknown
 * @throws KasError MESSAGE_TOO_LARGE, BODY_TOO_SLOW; the reason of the signal
 */
export async function* boundedBody(
  exchange: Exchange,
  contentLength: number,
  bounds: BodyBounds,
): AsyncGenerator<Uint8Array, void, void> {
  if (contentLength === 0) return
  const { signal = exchange.signal } = bounds
  signal.throwIfAborted()
  const source = exchange.openBody()
  const read = () => abortable(source.read(), signal)
  const deadline = setTimeout(() => source.fail(new KasError({ code: 'BODY_TOO_SLOW' })), bounds.timeoutMs)
  let bytes = 0
  try {
    for (let chunk = await read(); chunk; chunk = await read()) {
      bytes += chunk.length
      checkLength(bytes, bounds)
      yield chunk
    }
  } finally {
    clearTimeout(deadline)
  }
}

export interface PacedBounds {
  readonly maxBytes: number
  readonly minBytesPerSecond: number
  /** longest wait that the bytes before it do not cover. ms */
  readonly slackMs: number
  /** a monotonic clock */
  readonly clock: Pick<Clock, 'now' | 'after'>
  readonly signal: AbortSignal
}

/**
 * Reads a long body, which has as much time as its rate gives it. Only time in which a piece is waited for counts.
 *
 * @param contentLength - 0: no body; -1: unknown
 * @throws KasError MESSAGE_TOO_LARGE, BODY_TOO_SLOW; the reason of the signal
 */
export async function* pacedBody(
  exchange: Exchange,
  contentLength: number,
  { maxBytes, minBytesPerSecond, slackMs, clock, signal }: PacedBounds,
): AsyncGenerator<Uint8Array, void, void> {
  if (contentLength === 0) return
  signal.throwIfAborted()
  const source = exchange.openBody()
  let [bytes, leftMs] = [0, slackMs]
  for (;;) {
    const since = clock.now()
    const cancel = clock.after(leftMs, () => source.fail(new KasError({ code: 'BODY_TOO_SLOW' })))
    const chunk = await abortable(source.read(), signal).finally(cancel)
    if (!chunk) return
    bytes += chunk.length
    checkLength(bytes, { maxBytes })
    leftMs = Math.min(slackMs, leftMs - (clock.now() - since) + (chunk.length * 1000) / minBytesPerSecond)
    yield chunk
  }
}

/** @throws KasError MESSAGE_TOO_LARGE */
export function checkLength(bytes: number, { maxBytes }: Pick<BodyBounds, 'maxBytes'>): void {
  if (bytes > maxBytes) throw new KasError({ code: 'MESSAGE_TOO_LARGE', bytes, maxBytes })
}
