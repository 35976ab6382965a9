/** Size of a block, into which smaller pieces are copied: each alone would cost more than its bytes. */
const blockBytes = 1024

/** A view of less than this part of its buffer is copied, because it would keep the whole buffer. */
const ownPart = 1 / 8

/** Returns `bytes` in a form that may wait for long. */
export function kept(bytes: Buffer): Buffer {
  return bytes.length < bytes.buffer.byteLength * ownPart ? ownCopy(bytes) : bytes
}

interface Piece {
  bytes: Buffer
}

/**
 * Does the same for the pieces from `start` on. Pieces of one buffer are copied at once, if together they are a small
 * part of it.
 */
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

/** Copies outside of Node's pool, which other streams share. */
export function ownCopy(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  copy.set(bytes)
  return copy
}

/** Joins bytes that have to wait: passes them on in pieces of at least `blockBytes`. */
export class Blocks {
  readonly #take: (bytes: Buffer) => void
  #block: Buffer | undefined
  #filled = 0

  /** @param take - called in order, with blocks of their own, or with a view of a larger piece */
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
      this.#block = Buffer.allocUnsafeSlow(blockBytes) // not from Node's pool, where it would keep bytes of others
      this.#filled = rest.copy(this.#block)
    }
  }

  /** Passes on the last bytes, however few. */
  flush(): void {
    const block = this.#block
    if (!block) return
    this.#block = undefined
    this.#take(this.#filled === blockBytes ? block : block.subarray(0, this.#filled))
  }
}
