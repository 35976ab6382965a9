import type { Seeded } from '../support/seeded.ts'
import type { Machine, VirtualTime } from './virtual-time.ts'

/** Connections between machines that lose nothing, as TCP's: what cannot pass waits until it can. */

export const ports = { gossip: 8156, replicas: 8155, agents: 8150 } as const
export type Port = (typeof ports)[keyof typeof ports]

/** A way on which nothing passes; without `port`, of all ports. */
export interface Cut {
  readonly from: string
  readonly to: string
  readonly port?: Port
}

/** What TCP waits for before it sends a lost segment again. ms */
const resendMs = 200
/** between two tries to connect. ms */
const redialMs = 1000
/** until a machine that has come back after a loss of power has said that it knows nothing of old connections. ms */
const amnesiaMs = 3000

export class Refused extends Error {}

interface Listener {
  readonly machine: Machine
  readonly accept: (end: WireEnd) => void
}

export class SimulatedNetwork {
  readonly time: VirtualTime
  /** of the network's own chance */
  readonly chance: Seeded
  /** of all ways at present: 1 is a good network */
  slowness = 1
  readonly #cuts = new Set<Cut>()
  readonly #listeners = new Map<string, Listener>()
  readonly #ends = new Set<WireEnd>()
  /** with something that a cut keeps from passing */
  readonly #stuck = new Set<WireEnd>()

  constructor(time: VirtualTime, chance: Seeded) {
    this.time = time
    this.chance = chance
  }

  /** @returns takes the cut back */
  cut(cut: Cut): () => void {
    this.#cuts.add(cut)
    return () => {
      if (!this.#cuts.delete(cut)) return
      const stuck = [...this.#stuck]
      this.#stuck.clear()
      for (const end of stuck) end.resend()
    }
  }

  isCut(from: Machine, to: Machine, port: Port): boolean {
    if (this.#cuts.size === 0) return false
    for (const cut of this.#cuts) {
      if (cut.from === from.name && cut.to === to.name && (cut.port ?? port) === port) return true
    }
    return false
  }

  latencyMs(): number {
    const base = this.slowness * (0.1 + this.chance.fraction() * 2)
    return this.chance.chance(0.01) ? base + resendMs : base
  }

  listen(address: string, listener: Listener): void {
    this.#listeners.set(address, listener)
  }

  /** Nobody listens at the machine's addresses any more. */
  forget(machine: Machine): void {
    for (const [address, listener] of this.#listeners) {
      if (listener.machine === machine) this.#listeners.delete(address)
    }
  }

  /**
   * Connects, trying until `signal` aborts.
   *
   * @throws Refused if nobody listens there
   */
  dial(from: Machine, address: string, signal: AbortSignal): Promise<WireEnd> {
    const { promise, resolve, reject } = Promise.withResolvers<WireEnd>()
    const port = Number(address.slice(address.lastIndexOf(':') + 1)) as Port
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    const attempt = () => {
      if (signal.aborted) return
      const listener = this.#listeners.get(address)
      if (!listener) return void this.time.post(from, this.latencyMs(), () => reject(new Refused(address)))
      const { machine } = listener
      if (machine.state === 'dead' || this.isCut(from, machine, port)) {
        return void this.time.post(from, redialMs, attempt)
      }
      this.time.post(machine, this.latencyMs(), () => {
        const here = new WireEnd(this, from, port)
        const there = new WireEnd(this, machine, port)
        this.#join(here, there)
        listener.accept(there)
        there.send(() => {
          if (signal.aborted) here.close()
          else resolve(here)
        })
      })
    }
    attempt()
    return promise
  }

  #join(one: WireEnd, other: WireEnd): void {
    one.peer = other
    other.peer = one
    this.#ends.add(one).add(other)
  }

  drop(end: WireEnd): void {
    this.#ends.delete(end)
  }

  stuck(end: WireEnd): void {
    this.#stuck.add(end)
  }

  /** A process ends: its system says so on all its connections. */
  closeAllOf(machine: Machine): void {
    for (const end of [...this.#ends]) if (end.machine === machine) end.closeByKernel()
  }

  /** The power went, and is back: old connections of the machine end as soon as somebody uses them. */
  resetAllOf(machine: Machine): void {
    for (const end of [...this.#ends]) {
      if (end.machine !== machine) continue
      this.#ends.delete(end)
      this.time.post(end.peer.machine, this.chance.fraction() * amnesiaMs, () => end.peer.lost())
    }
  }
}

interface Parcel {
  readonly deliver: () => void
  state: 'moving' | 'stuck' | 'arrived'
}

/** One end of a connection: what is sent runs at the other end, in order. */
export class WireEnd {
  readonly machine: Machine
  readonly port: Port
  peer!: WireEnd
  /** things that came */
  bytesRead = 0
  closed = false
  /** the connection has ended, here or there */
  onClose: () => void = () => undefined
  /** at the end that was dialled: what the other one says first */
  onHello: (hello: unknown) => void = () => undefined
  readonly #network: SimulatedNetwork
  /** on the way to the other end */
  readonly #parcels: Parcel[] = []

  constructor(network: SimulatedNetwork, machine: Machine, port: Port) {
    this.#network = network
    this.machine = machine
    this.port = port
  }

  send(action: () => void): void {
    if (!this.closed) this.#transmit(() => this.peer.#take(action))
  }

  /** To be sent first, by the end that has dialled. */
  hello(hello: unknown): void {
    this.send(() => this.peer.onHello(hello))
  }

  /** Ends the connection here at once, and there when that arrives. */
  close(): void {
    if (this.closed) return
    this.closeByKernel()
    this.onClose()
  }

  /** As `close`, and nobody is left here to learn of it. */
  closeByKernel(): void {
    if (this.closed) return
    this.closed = true
    this.#transmit(() => this.peer.lost())
    this.#network.drop(this)
  }

  /** The other end is gone. */
  lost(): void {
    if (this.closed) return
    this.closed = true
    this.#network.drop(this)
    this.onClose()
  }

  /** A cut has healed. */
  resend(): void {
    for (const parcel of this.#parcels) {
      if (parcel.state === 'stuck') this.#move(parcel, this.#network.chance.fraction() * resendMs)
    }
  }

  #transmit(deliver: () => void): void {
    const parcel: Parcel = { deliver, state: 'moving' }
    this.#parcels.push(parcel)
    this.#move(parcel, 0)
  }

  #move(parcel: Parcel, extraMs: number): void {
    parcel.state = 'moving'
    if (this.#isCut(parcel)) return
    const network = this.#network
    network.time.post(this.peer.machine, network.latencyMs() + extraMs, () => {
      if (this.#isCut(parcel)) return
      parcel.state = 'arrived'
      while (this.#parcels[0]?.state === 'arrived') this.#parcels.shift()?.deliver()
    })
  }

  #isCut(parcel: Parcel): boolean {
    if (!this.#network.isCut(this.machine, this.peer.machine, this.port)) return false
    parcel.state = 'stuck'
    this.#network.stuck(this)
    return true
  }

  #take(action: () => void): void {
    if (this.closed) return
    this.bytesRead++
    action()
  }
}
