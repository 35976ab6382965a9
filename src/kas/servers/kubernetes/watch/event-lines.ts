import type { ByteBudget } from '../../../../lib/byte-budget.ts'

const newline = 10
/** What a piece costs beside its bytes while it waits. */
const pieceBytes = 128

/** Cuts what comes in pieces into lines. */
export class EventLines {
  readonly #kept: ByteBudget
  #pieces: Uint8Array[] = []
  #bytes = 0

  constructor(kept: ByteBudget) {
    this.#kept = kept
  }

  /**
   * The lines that `chunk` completes, without their ends. Each counts as kept until the next is asked for: its reader
   * may have to wait for its client.
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
    // a copy: a view would keep the rest of the message
    if (from < chunk.length) this.keep(Uint8Array.from(chunk.subarray(from)))
  }

  /** @throws KasError MESSAGE_TOO_LARGE */
  keep(piece: Uint8Array): void {
    if (piece.length === 0) return
    this.#kept.take(piece.length + pieceBytes)
    this.#pieces.push(piece)
    this.#bytes += piece.length
  }

  /** What has come since the last line end. */
  rest(): Buffer {
    return Buffer.concat(this.#pieces, this.#bytes)
  }

  clear(): void {
    this.#kept.give(this.#bytes + this.#pieces.length * pieceBytes)
    this.#pieces = []
    this.#bytes = 0
  }
}
