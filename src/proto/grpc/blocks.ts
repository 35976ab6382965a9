/** Smaller pieces are copied together: one by one, each would cost more than its bytes. */
export const blockBytes = 1024

/** A view keeps all that was read with it: one that is less than such a part is copied. */
const ownPart = 1 / 8

const isSmallPart = (bytes: Buffer) => bytes.length < bytes.buffer.byteLength * ownPart

/** `bytes`, for as long as they may have to wait. */
export function kept(bytes: Buffer): Buffer {
  return isSmallPart(bytes) ? ownCopy(bytes) : bytes
}

/** The same for those from `start` on, in one copy: they are small. */
export function keepAll(all: { bytes: Buffer }[], start: number): void {
  let sum = 0
  for (let i = start; i < all.length; i++) sum += sizeOfCopy(all[i] as { bytes: Buffer })
  if (sum === 0) return
  const copy = Buffer.allocUnsafeSlow(sum)
  let at = 0
  for (let i = start; i < all.length; i++) {
    const one = all[i] as { bytes: Buffer }
    const size = sizeOfCopy(one)
    if (size === 0) continue
    copy.set(one.bytes, at)
    one.bytes = copy.subarray(at, at + size)
    at += size
  }
}

const sizeOfCopy = ({ bytes }: { bytes: Buffer }) => (isSmallPart(bytes) ? bytes.length : 0)

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
