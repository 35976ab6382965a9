import type { Clock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import type { ApiClient } from './api-client.ts'
import type { DutyCycle } from './duty-cycle.ts'
import { type LargeEvent, LargeEventReader } from './large-event.ts'

export interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR'
  readonly object: unknown
}

export interface WatchRequest {
  /** with its query */
  readonly path: string
  /** media types, best first; default: JSON */
  readonly accept?: string | undefined
  readonly signal: AbortSignal
  /** called when the watch is open */
  readonly onOpen?: () => void
  /** returns false to end the watch */
  readonly onEvent: (event: WatchEvent) => boolean
  /** called with an event larger than `maxEventBytes`; absent: such an event ends the watch */
  readonly onLarge?: ((event: LargeEvent) => void) | undefined
  /** absent: no rests */
  readonly rests?: { readonly dutyCycle: DutyCycle; readonly clock: Clock } | undefined
}

/** Limit of one event. An object has at most 1.5 MiB in etcd, and its JSON may take more bytes. */
export const maxEventBytes = 4 * 1024 * 1024
/** memory of a piece of a line besides its bytes; a piece may have one byte */
const pieceBytes = 128
const newline = 0x0a

/**
 * Runs one watch of the Kubernetes API, event by event.
 *
 * @returns the status of the answer, once the watch has ended. @throws the connection's error, or the signal's reason
 */
export function followWatch(client: Pick<ApiClient, 'send'>, request: WatchRequest): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  const { signal, path, accept = 'application/json', onOpen, onEvent, onLarge, rests } = request
  if (signal.aborted) return Promise.reject(signal.reason)
  let status = 0
  let isOver = false
  let stopResting: (() => void) | undefined
  const settle = (settled: () => void) => {
    isOver = true
    stopResting?.()
    signal.removeEventListener('abort', onAbort)
    settled()
  }
  const onLine = (line: Buffer) => {
    if (isOver || onEvent(JSON.parse(line.toString()) as WatchEvent)) return
    settle(() => resolve(status))
    exchange.abort(new KasError({ code: 'CANCELLED' }))
  }
  const lines = new Lines(onLine, onLarge && ((event) => isOver || onLarge(event)))
  const rest = (since: number) => {
    const restMs = rests?.dutyCycle.worked(since) ?? 0
    if (restMs === 0 || isOver) return
    exchange.pause()
    stopResting = rests?.clock.after(restMs, () => exchange.resume())
  }
  const onAbort = () => exchange.abort(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  const exchange = client.send(
    { method: 'GET', path, headers: ['Accept', accept] },
    {
      onHead: (code) => {
        status = code
        if (code === 200) onOpen?.()
      },
      onData: (chunk) => {
        if (status !== 200 || isOver) return
        const since = rests?.clock.now() ?? 0
        try {
          lines.add(chunk)
        } catch (error) {
          settle(() => reject(error))
          exchange.abort(error)
        }
        rest(since)
      },
      onEnd: () => settle(() => resolve(status)),
      onError: (error) => settle(() => reject(error)),
    },
  )
  return promise
}

/** Reads the code of the Status in an ERROR event. */
export function errorCode(object: unknown): number {
  const { code } = object as { code?: unknown }
  return typeof code === 'number' && code !== 200 ? code : 500
}

/** True at the end of the initial objects (WatchList). */
export function isEndOfList(bookmark: unknown): boolean {
  const { metadata } = bookmark as { metadata?: { annotations?: Record<string, string> } }
  return metadata?.annotations?.['k8s.io/initial-events-end'] === 'true'
}

/** Splits chunks into lines. */
class Lines {
  readonly #onLine: (line: Buffer) => void
  readonly #onLarge: ((event: LargeEvent) => unknown) | undefined
  #parts: Buffer[] = []
  #bytes = 0
  /** reader of a line that is too large to be kept; undefined: the line is kept */
  #large: LargeEventReader | undefined

  constructor(onLine: (line: Buffer) => void, onLarge?: (event: LargeEvent) => unknown) {
    this.#onLine = onLine
    this.#onLarge = onLarge
  }

  /** @throws KasError MESSAGE_TOO_LARGE if no listener takes such an event, or the error of a listener */
  add(chunk: Buffer): void {
    let from = 0
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, from)) {
      this.#take(chunk.subarray(from, end))
      from = end + 1
      this.#end()
    }
    if (from < chunk.length) this.#take(chunk.subarray(from))
  }

  #take(part: Buffer): void {
    if (this.#large) {
      this.#large.add(part)
      return
    }
    this.#parts.push(part)
    this.#bytes += part.length + pieceBytes
    if (this.#bytes > maxEventBytes) this.#skip()
  }

  #end(): void {
    const [large, parts] = [this.#large, this.#parts]
    this.#large = undefined
    this.#parts = []
    this.#bytes = 0
    if (large) {
      this.#onLarge?.(large.read())
      return
    }
    const line = parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)
    if (line.length > 0) this.#onLine(line)
  }

  /** Drops the bytes of this line, and reads it on without keeping it. */
  #skip(): void {
    if (!this.#onLarge) {
      throw new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: this.#bytes, maxBytes: maxEventBytes })
    }
    this.#large = new LargeEventReader()
    for (const part of this.#parts) this.#large.add(part)
    this.#parts = []
  }
}
