import { delay } from '../../../src/lib/signals.ts'
import type { TornDown } from '../processes.ts'
import { membersOf } from './network-cluster.ts'
import type { NetworkReplica } from './network-replica.ts'

/** pause between two reads. ms */
const lookMs = 40

/** Reads again and again which members each replica knows, until `stop`. */
export class Losses {
  readonly #instances: ReadonlyMap<string, string>
  readonly #losses = new Set<string>()
  readonly #stop = new AbortController()
  #looking: Promise<unknown> = Promise.resolve()
  #looks = 0

  private constructor(instances: ReadonlyMap<string, string>) {
    this.#instances = instances
  }

  /** Watches the replicas that exist now, each of which must stay the same instance. */
  static async watch(t: TornDown, replicas: readonly NetworkReplica[]): Promise<Losses> {
    const [first] = replicas
    const members = first ? await membersOf(first) : []
    const losses = new Losses(new Map(members.map(({ name, instance }) => [name, instance])))
    t.teardown(() => losses.stop())
    losses.#looking = Promise.all(replicas.map((replica) => losses.#look(replica)))
    return losses
  }

  /** Replicas that missed another one at any time, each pair once, and the number of reads. */
  async stop(): Promise<{ losses: readonly string[]; looks: number }> {
    this.#stop.abort()
    await this.#looking
    return { losses: [...this.#losses], looks: this.#looks }
  }

  async #look(replica: NetworkReplica): Promise<void> {
    while (!this.#stop.signal.aborted) {
      try {
        const known = new Map((await membersOf(replica)).map(({ name, instance }) => [name, instance]))
        for (const [name, instance] of this.#instances) {
          if (known.get(name) !== instance) this.#losses.add(`${replica.name} missed ${name}`)
        }
        this.#looks++
      } catch (error) {
        this.#losses.add(`${replica.name}: ${(error as Error).message}`)
      }
      await delay(lookMs, this.#stop.signal).catch(() => undefined) // it has stopped
    }
  }
}
