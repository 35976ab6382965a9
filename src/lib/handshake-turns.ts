import { type Clock, monotonicClock } from './clock.ts'
import { NetworkQueue } from './network-queue.ts'
import { type Source, SourceHistory } from './source-history.ts'

/** Sockets that wait for a turn. Servers bound connections of strangers themselves, and lower. */
export const maxWaitingHandshakes = 8192
/** Handshakes begin for so long without a rest, at least one: others wait as long. ms */
export const sliceMs = 2
/** of the CPU time of the event loop, where it has other work; where it has none, handshakes take up to two thirds */
export const handshakeShare = 0.4
/** From one check of the event loop to the next. ms */
export const checkMs = 1
/** The last of so many turns is for an address that was not let in lately, if one waits. */
const turnsForAll = 4

export interface HandshakeTurnsComponents {
  /** a monotonic one */
  readonly clock: Clock
  /** how long the event loop had nothing to do, since it began. ms */
  readonly idleMs: () => number
  /** CPU time of this thread: a busy machine makes handshakes longer, but not dearer. Systems may count it in steps. ms */
  readonly cpuMs: () => number
  /** calls it once what the present piece of work has put off at once is done */
  readonly afterwards: (action: () => void) => void
}

const ownComponents: HandshakeTurnsComponents = {
  clock: monotonicClock,
  idleMs: () => performance.eventLoopUtilization().idle,
  cpuMs: () => {
    const { user, system } = process.threadCpuUsage()
    return (user + system) / 1000
  },
  afterwards: (action) => process.nextTick(action),
}

/** A connection that has spoken. */
export interface WaitingHandshake extends Source {
  begin(): void
  /** It has no place. */
  lost(): void
}

/**
 * Begins handshakes within a budget of CPU time. Addresses that were let in lately come first, then networks
 * by what they took lately, and in each network one address after another.
 */
export class HandshakeTurns {
  readonly #components: HandshakeTurnsComponents
  readonly #history: SourceHistory
  readonly #known: NetworkQueue<WaitingHandshake>
  readonly #others: NetworkQueue<WaitingHandshake>
  #turn = 0
  #isBusy = false
  /** Wall time and CPU time of this slice. ms */
  #slice = { ms: 0, cpuMs: 0 }

  constructor(history = new SourceHistory(), components: HandshakeTurnsComponents = ownComponents) {
    this.#components = components
    this.#history = history
    this.#known = new NetworkQueue(maxWaitingHandshakes / 2, history)
    this.#others = new NetworkQueue(maxWaitingHandshakes / 2, history)
  }

  get waiting(): number {
    return this.#known.size + this.#others.size
  }

  /** @returns ends the wait */
  enter(handshake: WaitingHandshake): () => void {
    const queue = this.#history.wasLetIn(handshake) ? this.#known : this.#others
    this.#history.ask(handshake.network)
    queue.add(handshake)?.lost()
    if (!this.#isBusy) {
      this.#isBusy = true
      this.#beginNext()
    }
    return () => void queue.delete(handshake)
  }

  /** Its cost is that of what it puts off at once, too: Node reads a ClientHello then. */
  #beginNext(): void {
    const { clock, cpuMs, afterwards } = this.#components
    const queue = this.#nextQueue()
    const handshake = queue.take()
    if (!handshake) return void this.#rest()
    const [beganAt, cpuBefore] = [clock.now(), cpuMs()]
    handshake.begin()
    afterwards(() => {
      const usedMs = cpuMs() - cpuBefore
      queue.charge(handshake, usedMs)
      this.#slice.cpuMs += usedMs
      this.#slice.ms += clock.now() - beganAt
      if (this.#slice.ms < sliceMs) this.#beginNext()
      else this.#rest()
    })
  }

  #nextQueue(): NetworkQueue<WaitingHandshake> {
    this.#turn = (this.#turn + 1) % turnsForAll
    const isForAll = this.#turn === 0 && this.#others.size > 0
    return this.#known.size > 0 && !isForAll ? this.#known : this.#others
  }

  /** Until the rest of the loop's work had its share, or until there is none. */
  #rest(): void {
    const { clock, idleMs: idleNow, cpuMs: cpuNow } = this.#components
    const { ms, cpuMs } = this.#slice
    this.#slice = { ms: 0, cpuMs: 0 }
    if (ms === 0) {
      this.#isBusy = false
      return
    }
    const [beganAt, idleBefore, cpuBefore] = [clock.now(), idleNow(), cpuNow()]
    const untilMs = (cpuMs * (1 - handshakeShare)) / handshakeShare
    const check = () => {
      const idleMs = idleNow() - idleBefore
      const isIdle = idleMs >= (clock.now() - beganAt) / 2
      const othersMs = idleMs + cpuNow() - cpuBefore
      if (isIdle || othersMs >= untilMs) this.#beginNext()
      else clock.after(checkMs, check)
    }
    clock.after(checkMs, check)
  }
}
