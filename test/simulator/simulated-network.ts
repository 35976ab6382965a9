import type { Seeded } from '../support/seeded.ts'
import type { Machine, VirtualTime } from './virtual-time.ts'

/** Connections between machines that lose nothing, as in TCP: bytes that cannot pass wait until they can. */

export const ports = { gossip: 8156, replicas: 8155, agents: 8150 } as const
export type Port = (typeof ports)[keyof typeof ports]

/** Two machines, where nothing passes from one to the other; without `port`, on all ports. */
export interface Cut {
  readonly from: string
  readonly to: string
  readonly port?: Port
}

/** TCP's pause before it sends a lost segment again. ms */
const resendMs = 200
/** pause between two tries to connect. ms */
const redialMs = 1000
/** longest time until a machine that has come back from a loss of power answers old connections with a reset. ms */
const amnesiaMs = 3000

export class Refused extends Error {}

interface Listener {
  readonly machine: Machine
  readonly accept: (end: WireEnd) => void
}

export class SimulatedNetwork {
  readonly time: VirtualTime
  /** random source of the network alone */
  readonly chance: Seeded
  /** factor for all delays at present: 1 is a good network */
  slowness = 1
  readonly #cuts = new Set<Cut>()
  readonly #listeners = new Map<string, Listener>()
  readonly #ends = new Set<WireEnd>()
  /** ends with a parcel that a cut stops */
  readonly #stuck = new Set<WireEnd>()

  constructor(time: VirtualTime, chance: Seeded) {
    this.time = time
    this.chance = chance
  }

  /** @returns removes the cut */
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

  /** Removes the machine's listeners. */
  forget(machine: Machine): void {
    for (const [address, listener] of this.#listeners) {
      if (listener.machine === machine) this.#listeners.delete(address)
    }
  }

  /**
   * Connects, and tries again until `signal` aborts.
   *
   * @throws Refused if nothing listens there
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

  /** Ends all connections of a process, as its system does after the process's end. */
  closeAllOf(machine: Machine): void {
    for (const end of [...this.#ends]) if (end.machine === machine) end.closeByKernel()
  }

  /** Drops the connections of a machine whose power was lost and is back: they end at the next use. */
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

/** One end of a connection: an action that is sent runs at the other end, in order. */
export class WireEnd {
  readonly machine: Machine
  readonly port: Port
  peer!: WireEnd
  /** number of arrived parcels */
  bytesRead = 0
  closed = false
  /** called when the connection has ended, here or there */
  onClose: () => void = () => undefined
  /** at the dialled end: called with the other end's first message */
  onHello: (hello: unknown) => void = () => undefined
  readonly #network: SimulatedNetwork
  /** parcels on the way to the other end */
  readonly #parcels: Parcel[] = []

  constructor(network: SimulatedNetwork, machine: Machine, port: Port) {
    this.#network = network
    this.machine = machine
    this.port = port
  }

  send(action: () => void): void {
    if (!this.closed) this.#transmit(() => this.peer.#take(action))
  }

  /** Sends the first message, from the end that has dialled. */
  hello(hello: unknown): void {
    this.send(() => this.peer.onHello(hello))
  }

  /** Ends the connection here at once, and there when that arrives. */
  close(): void {
    if (this.closed) return
    this.closeByKernel()
    this.onClose()
  }

  /** Ends the connection as `close` does, without a call of `onClose` here. */
  closeByKernel(): void {
    if (this.closed) return
    this.closed = true
    this.#transmit(() => this.peer.lost())
    this.#network.drop(this)
  }

  /** The other end has ended. */
  lost(): void {
    if (this.closed) return
    this.closed = true
    this.#network.drop(this)
    this.onClose()
  }

  /** Sends the stuck parcels again after a cut has healed. */
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
