import type { ByteBudget } from '../../../../../lib/byte-budget.ts'
import { KasError } from '../../../../../lib/errors.ts'

/** Finds the ends of messages in a stream. */
export interface Boundaries {
  /**
   * Must see each byte once, in order.
   *
   * @returns end of the message that contains `at`; -1: not in this chunk
   */
  endOf(chunk: Uint8Array, at: number): number
}

/** Messages of one line each. */
export class LineBoundaries implements Boundaries {
  endOf(chunk: Uint8Array, at: number): number {
    return chunk.indexOf(0x0a, at) + 1 || -1
  }
}

const headBytes = 4

/** Messages in Kubernetes' framing of protobuf: four bytes of length, big-endian, then so many bytes. */
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

/** Errors of a watch that has no room beside others. */
const noRoom: ReadonlySet<string> = new Set(['MESSAGE_TOO_LARGE', 'TOO_MANY_STREAMS'])
/** Memory of a waiting piece beside its bytes. */
const pieceBytes = 128

/** Splits a stream of pieces into complete events, and keeps the incomplete rest. */
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

  /** True while an event passes in pieces, because it is longer than may be kept. */
  get isPassing(): boolean {
    return this.#isPassing
  }

  /**
   * Adds a chunk.
   *
   * @param filter - gets each event that `chunk` completes; returns true if it passes on
   * @returns bytes that pass on, in order
   */
  push(chunk: Uint8Array, filter: (event: Uint8Array) => boolean): Uint8Array[] {
    const passed: Uint8Array[] = []
    const pass = (piece: Uint8Array) => piece.length > 0 && passed.push(piece)
    /** beginning of the part of this chunk that is not passed on yet */
    let from = 0
    let at = 0
    while (at < chunk.length) {
      const end = this.#boundaries.endOf(chunk, at)
      if (end < 0) break
      if (this.#isPassing) {
        this.#isPassing = false
        at = end // the event's last piece, which passes with the bytes around it
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

  /** Returns the bytes of an incomplete event, and keeps none of them. */
  take(): Uint8Array {
    const event = Buffer.concat(this.#pieces, this.#bytes)
    this.#kept.give(this.#bytes + this.#pieces.length * pieceBytes)
    this.#pieces = []
    this.#bytes = 0
    return event
  }

  /** @returns true: there was room */
  #keep(piece: Uint8Array): boolean {
    try {
      this.#kept.take(piece.length + pieceBytes)
    } catch (error) {
      if (error instanceof KasError && noRoom.has(error.code)) return false
      throw error
    }
    this.#pieces.push(Uint8Array.from(piece)) // a copy: a view would keep other bytes in memory
    this.#bytes += piece.length
    return true
  }
}
