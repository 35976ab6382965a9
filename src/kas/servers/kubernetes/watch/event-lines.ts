import type { ByteBudget } from '../../../../lib/byte-budget.ts'

const newline = 10
/** Memory of a waiting piece beside its bytes. */
const pieceBytes = 128

/** Splits a stream of pieces into lines. */
export class EventLines {
  readonly #kept: ByteBudget
  #pieces: Uint8Array[] = []
  #bytes = 0

  constructor(kept: ByteBudget) {
    this.#kept = kept
  }

  /**
   * Yields the lines that `chunk` completes, without their ends. Each line counts as kept until the next one is read,
   * because the reader may have to wait for its client.
   *
   * @throws KasError MESSAGE_TOO_LARGE
   */
  *push(chunk: Uint8Array): Generator<Buffer, void, void> {
    let from = 0
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, from)) {
      this.keep(chunk.subarray(from, end))
      yield this.rest()
      this.clear()
      from = end + 1
    }
    // a copy: a view would keep the rest of the message in memory
    if (from < chunk.length) this.keep(Uint8Array.from(chunk.subarray(from)))
  }

  /** Keeps a piece of a line. @throws KasError MESSAGE_TOO_LARGE */
  keep(piece: Uint8Array): void {
    if (piece.length === 0) return
    this.#kept.take(piece.length + pieceBytes)
    this.#pieces.push(piece)
    this.#bytes += piece.length
  }

  /** Returns the bytes since the last line end. */
  rest(): Buffer {
    return Buffer.concat(this.#pieces, this.#bytes)
  }

  clear(): void {
    this.#kept.give(this.#bytes + this.#pieces.length * pieceBytes)
    this.#pieces = []
    this.#bytes = 0
  }
}
