import type { NoRoom, RoomUser, Share } from '../../lib/shared-total.ts'
import { MemoryPressure } from './memory-pressure.ts'
import type { WindowOwner } from './stream-window.ts'
import type { WindowBudget } from './window-budget.ts'

/** Share of `maxBytes` above which waiting bytes make the windows narrow. */
const pressureShare = 0.55

/** Returns one caller's share in the replica's total; undefined: the peer itself. */
export type EnterShare = (callerKey: string | undefined) => Share

/**
 * Received bytes that wait to be taken, over all streams that are charged to it. If there is no room, the stream with
 * most makes it, so streams with fast readers do not end for those with slow ones.
 */
export class UnreadBytes implements WindowOwner {
  /** without the bytes that came because windows were wide */
  readonly maxBytes: number
  /** budget of the charged connections and streams; absent: no window is wide */
  readonly windows: WindowBudget | undefined
  /** unsent bytes: above `wideUnsentBytes` each stream buffers less */
  unsent = 0
  /** called once, when no bytes wait any more */
  onEmpty: (() => void) | undefined
  /** pressure of waiting bytes, without those that came because windows were wide */
  readonly pressure: MemoryPressure
  /** for a total of all owners; absent: there is none */
  readonly enterShare: EnterShare | undefined
  readonly #noRoom: NoRoom
  readonly #holders = new Set<RoomUser>()
  #bytes = 0
  /** part that came because windows were wide */
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
   * @param extra - part that came because a window was wide
   * @returns false: there is no room, and nothing is added
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

  /** @param extra - part that came because a window was wide */
  remove(bytes: number, extra = 0): void {
    this.#countExtra(-extra)
    this.pressure.count(extra - bytes)
    this.#bytes -= bytes
    if (this.#bytes !== 0) return
    const { onEmpty } = this
    this.onEmpty = undefined // once: it may lead to another removal
    onEmpty?.()
  }

  /** Adds a stream that may be dropped, until it leaves. */
  enter(holder: RoomUser): void {
    this.#holders.add(holder)
  }

  leave(holder: RoomUser): void {
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

  get #most(): RoomUser | undefined {
    let most: RoomUser | undefined
    for (const holder of this.#holders) if (holder.bufferedBytes > (most?.bufferedBytes ?? 0)) most = holder
    return most
  }
}
