import type { Boundaries } from './watch/resume/watch-frames.ts'

/** Larger frames than this are passed on in pieces. An API server sends output of commands in frames of 32 KiB. */
const maxKeptBytes = 64 * 1024
/** The rest of a frame comes at once; bytes that wait longer than this are passed on. ms */
const patienceMs = 100

export interface WholeFramesComponents {
  readonly boundaries: Boundaries
  /** Passes a piece on. */
  readonly write: (piece: Uint8Array) => Promise<void> | undefined
  /** Counts kept bytes; negative: bytes that are no longer kept. */
  readonly count: (bytes: number) => void
}

/**
 * Passes on complete frames of a connection, so that the reason can follow whenever it ends early, also to a client
 * that has stopped reading.
 */
export class WholeFrames {
  readonly #components: WholeFramesComponents
  /** pieces of an incomplete frame */
  #kept: Uint8Array[] = []
  #keptBytes = 0
  #timer: NodeJS.Timeout | undefined
  #isFull = false

  constructor(components: WholeFramesComponents) {
    this.#components = components
  }

  /** Adds a chunk. Undefined: go on; a promise: resolves when the client has taken enough, or has left. */
  push(chunk: Uint8Array): Promise<void> | undefined {
    const { boundaries } = this.#components
    clearTimeout(this.#timer)
    let end = 0
    for (let at = boundaries.endOf(chunk, 0); at >= 0; at = at < chunk.length ? boundaries.endOf(chunk, at) : -1)
      end = at
    const isTooLong = end === 0 && this.#keptBytes + chunk.length > maxKeptBytes
    const passed = isTooLong ? chunk : chunk.subarray(0, end)
    const full = passed.length > 0 ? this.#write(passed) : undefined
    if (passed.length < chunk.length) this.#keep(chunk.subarray(passed.length))
    return full && this.#untilTaken(full)
  }

  /** Passes on the rest, complete or not. */
  flush(): Promise<void> | undefined {
    clearTimeout(this.#timer)
    return this.#keptBytes > 0 ? this.#write(undefined) : undefined
  }

  #write(last: Uint8Array | undefined): Promise<void> | undefined {
    let full: Promise<void> | undefined
    for (const piece of this.#takeKept()) full = this.#components.write(piece)
    return last ? this.#components.write(last) : full
  }

  #takeKept(): readonly Uint8Array[] {
    const kept = this.#kept
    if (kept.length > 0) this.#components.count(-this.#keptBytes)
    this.#kept = []
    this.#keptBytes = 0
    return kept
  }

  #keep(piece: Uint8Array): void {
    this.#kept.push(piece)
    this.#keptBytes += piece.length
    this.#components.count(piece.length)
    this.#flushLater()
  }

  async #untilTaken(full: Promise<void>): Promise<void> {
    this.#isFull = true
    clearTimeout(this.#timer)
    await full
    this.#isFull = false
    if (this.#keptBytes > 0) this.#flushLater()
  }

  #flushLater(): void {
    if (!this.#isFull) this.#timer = setTimeout(() => void this.flush(), patienceMs)
  }
}
