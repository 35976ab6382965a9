/** Smaller pieces are copied together: one by one, each would cost more than its bytes. */
export const blockBytes = 1024

/** A view keeps all that was read with it: one that is less than such a part is copied. */
const ownPart = 1 / 8

/** `bytes`, for as long as they may have to wait. */
export function kept(bytes: Buffer): Buffer {
  return bytes.length < bytes.buffer.byteLength * ownPart ? ownCopy(bytes) : bytes
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
