/** Smaller pieces are copied together: one by one, each would cost more than its bytes. */
const blockBytes = 1024

/** A view keeps all that was read with it: one that is less than such a part is copied. */
const ownPart = 1 / 8

/** `bytes`, for as long as they may have to wait. */
export function kept(bytes: Buffer): Buffer {
  return bytes.length < bytes.buffer.byteLength * ownPart ? ownCopy(bytes) : bytes
}

interface Piece {
  bytes: Buffer
}

/** The same for those from `start` on: what was read at once is copied at once, if they are a small part of it together. */
export function keepAll(pieces: readonly Piece[], start: number): void {
  for (let i = start; i < pieces.length; ) {
    const { buffer } = (pieces[i] as Piece).bytes
    const first = i
    let sum = 0
    for (; i < pieces.length && pieces[i]?.bytes.buffer === buffer; i++) sum += (pieces[i] as Piece).bytes.length
    if (sum < buffer.byteLength * ownPart) copyTogether(pieces.slice(first, i), sum)
  }
}

function copyTogether(pieces: readonly Piece[], sum: number): void {
  const copy = Buffer.allocUnsafeSlow(sum)
  let at = 0
  for (const piece of pieces) {
    const { length } = piece.bytes
    copy.set(piece.bytes, at)
    piece.bytes = copy.subarray(at, at + length)
    at += length
  }
}

/** Outside of node's pool, which other streams share. */
export function ownCopy(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  copy.set(bytes)
  return copy
}

/** Passes bytes that have to wait on in pieces of `blockBytes` at least, whatever they come in. */
export class Blocks {
  readonly #take: (bytes: Buffer) => void
  #block: Buffer | undefined
  #filled = 0

  /** @param take - gets them in their order: blocks of their own, and what is larger as a view */
  constructor(take: (bytes: Buffer) => void) {
    this.#take = take
  }

  add(piece: Buffer): void {
    let rest = piece
    if (this.#block) {
      const used = rest.copy(this.#block, this.#filled)
      this.#filled += used
      if (this.#filled < blockBytes) return
      this.flush()
      rest = rest.subarray(used)
    }
    if (rest.length >= blockBytes) this.#take(rest)
    else if (rest.length > 0) {
      this.#block = Buffer.allocUnsafeSlow(blockBytes) // of its own: one in node's pool would keep others' bytes
      this.#filled = rest.copy(this.#block)
    }
  }

  /** Passes the last ones on, however few. */
  flush(): void {
    const block = this.#block
    if (!block) return
    this.#block = undefined
    this.#take(this.#filled === blockBytes ? block : block.subarray(0, this.#filled))
  }
}
