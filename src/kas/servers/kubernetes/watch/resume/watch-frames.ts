import type { ByteBudget } from '../../../../../lib/byte-budget.ts'
import { KasError } from '../../../../../lib/errors.ts'

/** Where the events of a watch end. */
export interface Boundaries {
  /**
   * Called once for each byte, in order.
   *
   * @returns where behind `at` the event ends that stands there; -1: not in this chunk
   */
  endOf(chunk: Uint8Array, at: number): number
}

/** An event a line. */
export class LineBoundaries implements Boundaries {
  endOf(chunk: Uint8Array, at: number): number {
    return chunk.indexOf(0x0a, at) + 1 || -1
  }
}

const headBytes = 4

/** As Kubernetes frames protobuf: four bytes of length, the first the highest, then so many. */
export class LengthBoundaries implements Boundaries {
  #headBytes = 0
  #left = 0

  endOf(chunk: Uint8Array, from: number): number {
    let at = from
    for (; this.#headBytes < headBytes && at < chunk.length; at++, this.#headBytes++)
      this.#left = this.#left * 256 + (chunk[at] as number)
    const passed = Math.min(this.#left, chunk.length - at)
    if (this.#headBytes === headBytes) this.#left -= passed
    if (this.#headBytes < headBytes || this.#left > 0) return -1
    this.#headBytes = 0
    return at + passed
  }
}

/** Errors that say that the watch, or its caller, has no room beside others. */
const noRoom: ReadonlySet<string> = new Set(['MESSAGE_TOO_LARGE', 'TOO_MANY_STREAMS'])
/** What a piece costs beside its bytes while it waits. */
const pieceBytes = 128

/** Cuts what comes in pieces into whole events, and keeps what is not whole yet. */
export class WatchFrames {
  readonly #boundaries: Boundaries
  readonly #kept: ByteBudget
  #pieces: Uint8Array[] = []
  #bytes = 0
  #isPassing = false

  constructor(boundaries: Boundaries, kept: ByteBudget) {
    this.#boundaries = boundaries
    this.#kept = kept
  }

  /** The event that comes now is longer than what may be kept: it passes in pieces. */
  get isPassing(): boolean {
    return this.#isPassing
  }

  /**
   * @param filter - gets each event that `chunk` completes; whether it passes on
   * @returns what passes on, in order
   */
  push(chunk: Uint8Array, filter: (event: Uint8Array) => boolean): Uint8Array[] {
    const passed: Uint8Array[] = []
    const pass = (piece: Uint8Array) => piece.length > 0 && passed.push(piece)
    /** events of this chunk from here on are not passed on yet */
    let from = 0
    let at = 0
    while (at < chunk.length) {
      const end = this.#boundaries.endOf(chunk, at)
      if (end < 0) break
      if (this.#isPassing) {
        this.#isPassing = false
        at = end // its last piece, which passes with what is around it
        continue
      }
      const isBegun = this.#bytes > 0
      const piece = chunk.subarray(at, end)
      const event = isBegun ? Buffer.concat([this.take(), piece]) : piece
      const passes = filter(event)
      if (isBegun || !passes) {
        pass(chunk.subarray(from, at))
        if (isBegun && passes) pass(event)
        from = end
      }
      at = end
    }
    pass(chunk.subarray(from, at))
    const rest = chunk.subarray(at)
    if (rest.length > 0 && (this.#isPassing || !this.#keep(rest))) {
      this.#isPassing = true
      pass(this.take())
      pass(rest)
    }
    return passed
  }

  /** What has come of an event that is not whole. Nothing of it is kept any more. */
  take(): Uint8Array {
    const event = Buffer.concat(this.#pieces, this.#bytes)
    this.#kept.give(this.#bytes + this.#pieces.length * pieceBytes)
    this.#pieces = []
    this.#bytes = 0
    return event
  }

  /** @returns whether there was room */
  #keep(piece: Uint8Array): boolean {
    try {
      this.#kept.take(piece.length + pieceBytes)
    } catch (error) {
      if (error instanceof KasError && noRoom.has(error.code)) return false
      throw error
    }
    this.#pieces.push(Uint8Array.from(piece)) // a copy: a view would keep what was read with it
    this.#bytes += piece.length
    return true
  }
}
