import { KasError } from '../../lib/errors.ts'
import type { ApiClient } from './api-client.ts'

export interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR'
  readonly object: unknown
}

export interface WatchRequest {
  /** with its query */
  readonly path: string
  readonly signal: AbortSignal
  /** false: enough */
  readonly onEvent: (event: WatchEvent) => boolean
}

/** An object is at most 1.5 MiB in etcd, and JSON may say the same in more bytes. */
export const maxEventBytes = 4 * 1024 * 1024
/** what a piece of a line takes beside its bytes: it may have as few as one */
const pieceBytes = 128
const newline = 0x0a

/**
 * One watch of the Kubernetes API, event by event.
 *
 * @returns the status of the answer, once it has ended. @throws the connection's error, or the signal's reason
 */
export function followWatch(client: Pick<ApiClient, 'send'>, request: WatchRequest): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  const { signal, path, onEvent } = request
  if (signal.aborted) return Promise.reject(signal.reason)
  let status = 0
  let isOver = false
  const settle = (settled: () => void) => {
    isOver = true
    signal.removeEventListener('abort', onAbort)
    settled()
  }
  const lines = new Lines((line) => {
    if (isOver || onEvent(JSON.parse(line.toString()) as WatchEvent)) return
    settle(() => resolve(status))
    exchange.abort(new KasError({ code: 'CANCELLED' }))
  })
  const onAbort = () => exchange.abort(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  const exchange = client.send(
    { method: 'GET', path, headers: ['Accept', 'application/json'] },
    {
      onHead: (code) => {
        status = code
      },
      onData: (chunk) => {
        if (status !== 200 || isOver) return
        try {
          lines.add(chunk)
        } catch (error) {
          settle(() => reject(error))
          exchange.abort(error)
        }
      },
      onEnd: () => settle(() => resolve(status)),
      onError: (error) => settle(() => reject(error)),
    },
  )
  return promise
}

/** Lines of what comes in pieces. */
class Lines {
  readonly #onLine: (line: Buffer) => void
  #parts: Buffer[] = []
  #bytes = 0

  constructor(onLine: (line: Buffer) => void) {
    this.#onLine = onLine
  }

  /** @throws KasError MESSAGE_TOO_LARGE, or what the listener throws */
  add(chunk: Buffer): void {
    let from = 0
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, from)) {
      const line = Buffer.concat([...this.#parts, chunk.subarray(from, end)])
      this.#parts = []
      this.#bytes = 0
      from = end + 1
      if (line.length > 0) this.#onLine(line)
    }
    if (from === chunk.length) return
    this.#parts.push(chunk.subarray(from))
    this.#bytes += chunk.length - from + pieceBytes
    if (this.#bytes <= maxEventBytes) return
    throw new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: this.#bytes, maxBytes: maxEventBytes })
  }
}
