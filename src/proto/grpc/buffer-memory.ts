import { youngCollector } from '../../lib/v8.ts'

/** With 4 MiB full collections come between them in agentk, with 8 MiB in kas too. */
export const collectEveryBytes = 2 * 1024 * 1024

/**
 * Has the young generation collected after so many bytes. They pass in buffers outside of V8's heap, which only a
 * collection frees; V8 counts them towards the next full one, and sees no need for a small one beside so few objects.
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

/** Of the process: what its streams receive and send. */
export const passedBytes = new PassedBytes(() => {
  collectYoung ??= youngCollector() // a context of its own, which a program does without that passes nothing large
  collectYoung()
})

/** Smaller ones share memory with others, or lie in V8's heap. */
const ownMemoryBytes = 4096

/**
 * Frees the memory of a buffer that nobody reads any more, which is empty from then on. Else it would wait for a full
 * collection, and each brings the next one nearer: they were a quarter of what large bodies cost over WebSocket.
 * One that shares its memory is left alone.
 */
export function freeBuffer({ buffer, length }: Buffer): void {
  if (length >= ownMemoryBytes && length === buffer.byteLength && buffer instanceof ArrayBuffer) buffer.transfer(0)
}
