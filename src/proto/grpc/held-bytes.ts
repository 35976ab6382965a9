/** Bytes that have come and wait to be taken, over all streams that are charged to it. */
export class HeldBytes {
  readonly maxBytes: number
  /** what is to be sent, and is not: beyond `wideUnsentBytes` each stream keeps less */
  unsent = 0
  #bytes = 0

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes
  }

  get bytes(): number {
    return this.#bytes
  }

  /** @returns whether there was room; nothing is added otherwise */
  add(bytes: number): boolean {
    if (this.#bytes + bytes > this.maxBytes) return false
    this.#bytes += bytes
    return true
  }

  remove(bytes: number): void {
    this.#bytes -= bytes
  }
}
