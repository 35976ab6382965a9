import type { Holder, NoRoom, Share } from '../../lib/shared-total.ts'
import { MemoryPressure } from './memory-pressure.ts'
import type { WindowOwner } from './stream-window.ts'
import type { WindowBudget } from './window-budget.ts'

/** Of `maxBytes`: what waits beyond it makes the windows narrow. */
const pressureShare = 0.55

/** Finds what one caller has of the replica's total; undefined: what the peer sends on its own behalf. */
export type EnterShare = (callerKey: string | undefined) => Share

/**
 * Bytes that have come and wait to be taken, over all streams that are charged to it. Who keeps up does not end for
 * those that do not: where there is no room, the one that holds most makes it.
 */
export class UnreadBytes implements WindowOwner {
  /** beside what comes because windows were wide */
  readonly maxBytes: number
  /** of the connections and streams that are charged; absent: none is wide */
  readonly windows: WindowBudget | undefined
  /** what is to be sent, and has not left: beyond `wideUnsentBytes` each stream keeps less */
  unsent = 0
  /** called whenever nothing waits any more */
  onEmpty: (() => void) | undefined
  /** of what waits, but for what came because windows were wide */
  readonly pressure: MemoryPressure
  /** of a total of all owners; absent: there is none */
  readonly enterShare: EnterShare | undefined
  readonly #noRoom: NoRoom
  readonly #holders = new Set<Holder>()
  #bytes = 0
  /** of them, what came because windows were wide */
  #extraBytes = 0

  constructor(maxBytes: number, windows?: WindowBudget, enterShare?: EnterShare) {
    this.maxBytes = maxBytes
    this.enterShare = enterShare
    this.#noRoom = { limit: maxBytes, of: 'agent' }
    this.pressure = new MemoryPressure(maxBytes * pressureShare)
    this.windows = windows
  }

  get bytes(): number {
    return this.#bytes
  }

  get noRoom(): NoRoom {
    return this.#noRoom
  }

  /**
   * @param extra - of them, what came because a window was wide
   * @returns whether there was room, or came to be; nothing is added otherwise
   */
  add(bytes: number, extra = 0): boolean {
    while (!this.#hasRoom(bytes, extra)) {
      const most = this.#most
      if (!most) return false
      this.leave(most)
      most.drop(this.#noRoom)
    }
    this.#bytes += bytes
    this.pressure.count(bytes - extra)
    this.#countExtra(extra)
    return true
  }

  /** @param extra - of them, what came because a window was wide */
  remove(bytes: number, extra = 0): void {
    this.#countExtra(-extra)
    this.pressure.count(extra - bytes)
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

  #hasRoom(bytes: number, extra: number): boolean {
    const usual = this.#bytes - this.#extraBytes + bytes - extra
    return usual <= this.maxBytes && this.#extraBytes + extra <= (this.windows?.maxBytes ?? 0)
  }

  #countExtra(bytes: number): void {
    if (bytes === 0) return
    this.#extraBytes += bytes
    this.windows?.hold(bytes)
  }

  get #most(): Holder | undefined {
    let most: Holder | undefined
    for (const holder of this.#holders) if (holder.bufferedBytes > (most?.bufferedBytes ?? 0)) most = holder
    return most
  }
}
