import { StoppedReaders } from './stopped-readers.ts'

/** Has bytes that have come and are not taken. */
export interface Holder {
  readonly heldBytes: number
  /** Ends its call, and gives all back. */
  drop(): void
}

/**
 * Bytes that have come and wait to be taken, over all streams that are charged to it. Who keeps up does not end for
 * those that do not: where there is no room, the one that holds most makes it.
 */
export class UnreadBytes {
  readonly maxBytes: number
  /** what is to be sent, and has not left: beyond `wideUnsentBytes` each stream keeps less */
  unsent = 0
  /** called whenever nothing waits any more */
  onEmpty: (() => void) | undefined
  /** of the streams that are charged */
  readonly stoppedReaders = new StoppedReaders()
  readonly #holders = new Set<Holder>()
  #bytes = 0

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes
  }

  get bytes(): number {
    return this.#bytes
  }

  /** @returns whether there was room, or came to be; nothing is added otherwise */
  add(bytes: number): boolean {
    while (this.#bytes + bytes > this.maxBytes) {
      const most = this.#most
      if (!most) return false
      this.leave(most)
      most.drop()
    }
    this.#bytes += bytes
    return true
  }

  remove(bytes: number): void {
    this.#bytes -= bytes
    if (this.#bytes !== 0) return
    const { onEmpty } = this
    this.onEmpty = undefined // once: nothing may be removed again
    onEmpty?.()
  }

  /** It may be dropped, until it leaves. */
  enter(holder: Holder): void {
    this.#holders.add(holder)
  }

  leave(holder: Holder): void {
    this.#holders.delete(holder)
  }

  get #most(): Holder | undefined {
    let most: Holder | undefined
    for (const holder of this.#holders) if (holder.heldBytes > (most?.heldBytes ?? 0)) most = holder
    return most
  }
}
