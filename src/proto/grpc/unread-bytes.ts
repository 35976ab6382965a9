import { MemoryPressure } from './memory-pressure.ts'
import type { WindowOwner } from './stream-window.ts'
import type { WindowBudget } from './window-budget.ts'

/** Of `maxBytes`: what waits beyond it makes the windows narrow. */
const pressureShare = 0.55

/** Has bytes that have come and are not taken. */
export interface Holder {
  readonly bufferedBytes: number
  /** Ends its call, and gives all back. */
  drop(): void
}

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
  readonly #holders = new Set<Holder>()
  #bytes = 0
  /** of them, what came because windows were wide */
  #extraBytes = 0

  constructor(maxBytes: number, windows?: WindowBudget) {
    this.maxBytes = maxBytes
    this.pressure = new MemoryPressure(maxBytes * pressureShare)
    this.windows = windows
  }

  get bytes(): number {
    return this.#bytes
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
      most.drop()
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
