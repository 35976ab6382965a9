import { noMetrics } from '../../../src/membership/metrics.ts'
import { GossipRules, type Network } from '../../../src/membership/protocol/gossip-rules.ts'
import type { MembershipMetrics } from '../../../src/membership/protocol/observer.ts'
import { defaultTimers } from '../../../src/membership/protocol/timers.ts'
import { OwnRow } from '../../../src/membership/table/own-row.ts'
import type { InstanceId } from '../../../src/membership/table/row.ts'
import { Table, type TableChange } from '../../../src/membership/table/table.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { head, instance } from './rows.ts'

/** The rules of one replica on a network that the test controls. */
export class FakeReplica {
  readonly instance: InstanceId
  readonly own: OwnRow
  readonly table = new Table()
  readonly rules: GossipRules
  readonly changes: TableChange[] = []
  /** calls of the network, in order */
  readonly cuts: [instance: InstanceId, reason: string][] = []
  readonly pulls: InstanceId[] = []
  readonly published: Uint8Array[] = []
  readonly refused: string[] = []
  /** errors of listeners to changes */
  readonly failures: unknown[] = []
  onChange: (change: TableChange) => void = () => undefined

  constructor(network: FakeNetwork, name: string) {
    this.instance = instance(name)
    this.own = new OwnRow(this.instance, { ...head, name })
    const links: Network = {
      publish: (message) => {
        this.published.push(message)
        network.publish(this, message)
      },
      pull: async (owner, signal) => {
        this.pulls.push(owner)
        return await network.pull(this, owner, signal)
      },
      cut: (other, reason) => void this.cuts.push([other, reason]),
    }
    const metrics: MembershipMetrics = { ...noMetrics, refused: (reason) => void this.refused.push(reason) }
    this.rules = new GossipRules(
      {
        clock: network.clock,
        random: () => 0.5,
        network: links,
        own: this.own,
        table: this.table,
        metrics,
        changed: (change) => {
          this.changes.push(change)
          this.onChange(change)
        },
        changedFailed: (error) => void this.failures.push(error),
        pullFailed: () => undefined,
      },
      defaultTimers,
    )
  }
}

/** A network that delivers each message at once, or loses it. */
export class FakeNetwork {
  readonly clock = new ManualClock()
  readonly replicas: FakeReplica[] = []
  /** True if this message is lost. */
  loses: (from: FakeReplica, to: FakeReplica) => boolean = () => false
  /** Resolves before a pull goes on; rejects: the pull fails. */
  beforePull: (by: FakeReplica, owner: InstanceId) => Promise<void> = async () => undefined

  /** Adds replicas that are all connected with each other. */
  add(...names: string[]): FakeReplica[] {
    const added = names.map((name) => new FakeReplica(this, name))
    for (const replica of added) {
      replica.rules.start()
      for (const other of this.replicas) {
        other.rules.connected(replica.instance)
        replica.rules.connected(other.instance)
      }
      this.replicas.push(replica)
    }
    return added
  }

  stop(): void {
    for (const { rules } of this.replicas.splice(0)) rules.stop()
  }

  publish(from: FakeReplica, message: Uint8Array): void {
    for (const to of this.replicas) {
      if (to !== from && !this.loses(from, to)) to.rules.received(from.instance, message)
    }
  }

  async pull(by: FakeReplica, owner: InstanceId, signal: AbortSignal) {
    await this.beforePull(by, owner)
    signal.throwIfAborted()
    const replica = this.replicas.find(({ instance }) => instance === owner)
    if (!replica) throw new Error('nobody there')
    return replica.own.snapshot()
  }

  /** Moves the clock and lets due pulls return. */
  async advance(ms: number): Promise<void> {
    for (let rest = ms; rest > 0; rest -= 10) {
      this.clock.advance(Math.min(10, rest))
      await settled()
    }
  }
}

/** Resolves when the callbacks of all settled promises have run. */
export const settled = () => new Promise<void>((resolve) => setImmediate(resolve))
