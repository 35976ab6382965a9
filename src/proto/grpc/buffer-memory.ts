import { youngCollector } from '../../lib/v8.ts'

/** Bytes between collections. With 4 MiB, full collections come between them in agentk, with 8 MiB also in kas. */
export const collectEveryBytes = 2 * 1024 * 1024

/**
 * Collects the young generation after this many bytes. They pass in buffers outside of V8's heap, which only a
 * collection frees. V8 counts them for the next full collection, but starts no small one for so few objects.
 */
export class PassedBytes {
  readonly #collect: () => void
  #bytes = 0

  constructor(collect: () => void) {
    this.#collect = collect
  }

  add(bytes: number): void {
    this.#bytes += bytes
    if (this.#bytes < collectEveryBytes) return
    this.#bytes = 0
    this.#collect()
  }
}

let collectYoung: (() => void) | undefined

/** Bytes that all streams of the process receive and send. */
export const passedBytes = new PassedBytes(() => {
  collectYoung ??= youngCollector() // a context of its own, which is not made before large data passes
  collectYoung()
})

/** Size below which a buffer shares its memory with others, or is in V8's heap. */
const ownMemoryBytes = 4096

/**
 * Frees the memory of a buffer that no code reads any more, and leaves it empty. Otherwise it would wait for a full
 * collection, and each one brings the next nearer. That was a quarter of the cost of large bodies over WebSocket. A
 * buffer that shares its memory stays as it is.
 */
export function freeBuffer({ buffer, length }: Buffer): void {
  if (length >= ownMemoryBytes && length === buffer.byteLength && buffer instanceof ArrayBuffer) buffer.transfer(0)
}
