import type { UnreadBytes } from './unread-bytes.ts'

/** Of a message that is not whole, while it is not known who sends it; agents send 32 to 64 KiB in one. */
export const maxStrangerBytes = 256 * 1024

/**
 * The same of who is known, before it is counted as its own: a message of 64 KiB but for its last byte, and what one
 * read may bring, which is 64 KiB too. So who sends as agents do needs no room.
 */
export const uncountedBytes = 144 * 1024

/** What ws keeps for each piece that was read, beside its bytes. */
export const pieceBytes = 512

/**
 * What has come of a WebSocket message that is not whole, about: ws keeps it until it is, and does not say how much it
 * is. It is known what is read, and which messages come out of it.
 */
export class PartialMessage {
  #bytes = 0
  #pieces = 0
  #lastReadBytes = 0
  #charged: UnreadBytes | undefined
  #countedBytes = 0

  /** Where more is refused. bytes */
  get limit(): number {
    return this.#charged?.maxBytes ?? maxStrangerBytes
  }

  /** @returns whether there was room for it */
  arrived(bytes: number): boolean {
    this.#lastReadBytes = bytes
    this.#bytes += bytes
    this.#pieces++
    return this.#count()
  }

  /** A message is whole. */
  taken(payloadBytes: number): void {
    // what is left came behind it: with heads of further frames of the message, which are not known, it cannot grow
    this.#bytes = Math.max(0, Math.min(this.#bytes - frameBytes(payloadBytes), this.#lastReadBytes))
    this.#pieces = Math.min(1, this.#bytes)
    this.#count()
  }

  /** A PING or PONG has come, which may stand between two frames of a message. */
  passed(payloadBytes: number): void {
    this.#bytes = Math.max(0, this.#bytes - frameBytes(payloadBytes))
    if (this.#bytes === 0) this.#pieces = 0
    this.#count()
  }

  /**
   * It is counted there from now on, beyond `uncountedBytes`, until `drop`.
   *
   * @returns whether there was room for it
   */
  chargeTo(held: UnreadBytes): boolean {
    this.#charged ??= held
    return this.#count()
  }

  drop(): void {
    this.#bytes = 0
    this.#pieces = 0
    this.#count()
  }

  #count(): boolean {
    const bytes = this.#bytes + this.#pieces * pieceBytes
    const held = this.#charged
    if (!held) return bytes <= maxStrangerBytes
    const change = Math.max(0, bytes - uncountedBytes) - this.#countedBytes
    if (change > 0 && !held.add(change)) return false
    if (change < 0) held.remove(-change)
    this.#countedBytes += change
    return true
  }
}

/** Of a masked one: flags and a short length, a longer one where it needs it, a mask, and what it carries. */
function frameBytes(payloadBytes: number): number {
  const lengthBytes = payloadBytes < 126 ? 0 : payloadBytes < 64 * 1024 ? 2 : 8
  return 2 + lengthBytes + 4 + payloadBytes
}
