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

/** @throws KasError MESSAGE_TOO_LARGE */
export function checkLength(bytes: number, { maxBytes }: Pick<BodyBounds, 'maxBytes'>): void {
  if (bytes > maxBytes) throw new KasError({ code: 'MESSAGE_TOO_LARGE', bytes, maxBytes })
}
