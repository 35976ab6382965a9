import { type Clock, monotonicClock } from './clock.ts'
import { NetworkQueue } from './network-queue.ts'
import { type Source, SourceHistory } from './source-history.ts'

/** Bound of sockets that wait for a turn. Servers bound connections of strangers themselves, with a lower number. */
export const maxWaitingHandshakes = 8192
/** Time in which handshakes begin without a rest, at least one of them. ms */
export const sliceMs = 2
/**
 * share in the CPU time of the event loop while it has other work. Without other work handshakes use up to two thirds.
 */
export const handshakeShare = 0.4
/** Interval of checks of the event loop. ms */
export const checkMs = 1
/** One turn in this many is for an address that was not let in lately, if one waits. */
const turnsForAll = 4

export interface HandshakeTurnsComponents {
  /** monotonic */
  readonly clock: Clock
  /** time that the event loop has been idle since it began. ms */
  readonly idleMs: () => number
  /**
   * CPU time of this thread: on a busy machine handshakes take longer, but cost the same. Systems may count in steps.
   * ms
   */
  readonly cpuMs: () => number
  /** calls it once the ticks that the present work has put off are done */
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

/** A connection that has sent bytes. */
export interface WaitingHandshake extends Source {
  begin(): void
  /** Ends the wait: it has no place. */
  lost(): void
}

/**
 * Begins handshakes within a budget of CPU time. Addresses that were let in lately come first, then networks in the
 * order of the time that they took lately. In each network one address follows another.
 */
export class HandshakeTurns {
  readonly #components: HandshakeTurnsComponents
  readonly #history: SourceHistory
  readonly #known: NetworkQueue<WaitingHandshake>
  readonly #others: NetworkQueue<WaitingHandshake>
  #turn = 0
  #isBusy = false
  /** time and CPU time of this slice. ms */
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

  /** @returns function that ends the wait */
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

  /** Begins the next handshake. Its cost includes the ticks that it puts off: Node reads the ClientHello in them. */
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

  /** Waits until the other work of the loop has had its share, or until there is none. */
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
