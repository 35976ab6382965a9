/** Bounds of a connection until it has proven to have the secret. */
export const firstBounds = {
  /** members send some 500, and the first data right behind them, which waits here until noise is done */
  bytes: 16 * 1024,
  /** messages of multistream-select: its own name, and noise for the one secret and the other */
  negotiations: 4,
} as const

/** a length is one byte below this, and includes the line end */
const longLength = 0x80

/**
 * Checks the first bytes of a connection as they come. All of them are negotiated by libp2p in one turn of the event
 * loop, however many they are. So bytes that no member sends are not passed to it.
 */
export class FirstBytes {
  readonly #protocols: readonly string[]
  #bytes = 0
  #negotiations = 0
  /** of multistream-select; undefined: negotiation is over, and noise follows */
  #unread: Buffer | undefined = Buffer.alloc(0)

  /** @param protocols - one of these ends the negotiation */
  constructor(protocols: readonly string[]) {
    this.#protocols = protocols
  }

  /** @returns true: the bytes are to be passed on; after a false, none are */
  accept(chunk: Uint8Array): boolean {
    this.#bytes += chunk.length
    if (this.#bytes > firstBounds.bytes) return false
    return this.#unread === undefined || this.#negotiate(Buffer.concat([this.#unread, chunk]))
  }

  #negotiate(bytes: Buffer): boolean {
    let rest = bytes
    while (rest.length > 0) {
      const length = rest[0] as number
      if (length === 0 || length >= longLength) return false
      if (rest.length <= length) break
      this.#negotiations++
      if (this.#negotiations > firstBounds.negotiations) return false
      if (this.#protocols.includes(rest.toString('latin1', 1, length))) {
        this.#unread = undefined
        return true
      }
      rest = rest.subarray(1 + length)
    }
    this.#unread = rest
    return true
  }
}
