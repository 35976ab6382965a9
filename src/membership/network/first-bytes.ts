/** What a connection may send until it has proven to know the secret. */
export const firstBounds = {
  /** of members some 500 come, and what they say at once behind them: it waits here until noise is done */
  bytes: 16 * 1024,
  /** messages of multistream-select: its own name, and noise for one secret, then for the other */
  negotiations: 4,
} as const

/** the length of a message is one byte below this, and counts the line end that follows it */
const longLength = 0x80

/**
 * The first bytes of a connection, as they come. libp2p negotiates all that is there in one turn of the event loop,
 * however much that is: what members do not send is not handed to it.
 */
export class FirstBytes {
  readonly #protocols: readonly string[]
  #bytes = 0
  #negotiations = 0
  /** of multistream-select; undefined: it is over, and noise follows */
  #unread: Buffer | undefined = Buffer.alloc(0)

  /** @param protocols - of which one ends the negotiation */
  constructor(protocols: readonly string[]) {
    this.#protocols = protocols
  }

  /** @returns whether these are handed on; after a false, none is */
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
