import type { DiscoverySource } from '../../src/membership/membership.ts'
import type { Seeded } from '../support/seeded.ts'
import { ports } from './simulated-network.ts'
import type { Machine, VirtualTime } from './virtual-time.ts'

/** delay until a replica learns of a change. ms */
const changeMs = 3000
/** delay until the first answer. ms */
const firstAnswerMs = 1000

/** Lists the addresses of replicas, late and for each replica at its own time. */
export class SimulatedDiscovery {
  readonly #time: VirtualTime
  readonly #chance: Seeded
  readonly #sources = new Map<Machine, (addresses: readonly string[]) => void>()
  readonly #hosts = new Map<string, string>()

  constructor(components: { time: VirtualTime; chance: Seeded }) {
    this.#time = components.time
    this.#chance = components.chance
  }

  /** Sets the address of a replica from now on; undefined: none. */
  place(name: string, host: string | undefined): void {
    if (host === undefined) this.#hosts.delete(name)
    else this.#hosts.set(name, host)
    for (const [machine, answer] of this.#sources) {
      this.#time.post(machine, this.#chance.fraction() * changeMs, () => answer(this.#addresses()))
    }
  }

  sourceFor(machine: Machine): DiscoverySource {
    const listeners = new Set<() => void>()
    let current = { addresses: [] as readonly string[], stale: false, answered: false }
    const answer = (addresses: readonly string[]) => {
      current = { addresses, stale: false, answered: true }
      for (const listener of [...listeners]) listener()
    }
    return {
      name: 'static',
      current: () => current,
      onChange: (listener) => {
        listeners.add(listener)
        return () => void listeners.delete(listener)
      },
      start: async () => {
        this.#sources.set(machine, answer)
        this.#time.post(machine, this.#chance.fraction() * firstAnswerMs, () => answer(this.#addresses()))
      },
      stop: async () => void this.#sources.delete(machine),
    }
  }

  #addresses(): readonly string[] {
    return [...this.#hosts.values()].map((host) => `${host}:${ports.gossip}`).sort()
  }
}
