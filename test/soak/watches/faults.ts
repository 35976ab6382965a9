import type { LocalReplica } from '../../../dev/start/local-replica.ts'
import { statusOf } from '../../../dev/start/replica-table.ts'
import { abortable, delay } from '../../../src/lib/signals.ts'
import type { FaultyGround } from '../exactly-once/faulty-ground.ts'

/** Faults of the replicas and pods that carry the watches of one entry, which lives on. */
export interface FaultCounts {
  /** kills of the replica that carries them */
  readonly kills: number
  readonly freezes: number
  /** replacements of agentk's pod */
  readonly pods: number
  /** rolling restarts of the replicas other than the entry */
  readonly restarts: number
}

export const faultNames = ['kills', 'freezes', 'pods', 'restarts'] as const
export type FaultName = (typeof faultNames)[number]

/** Duration of a freeze, after which the replica has lost its calls. ms */
const frozenMs = 12_000
/** limit until all watches are open again. ms */
const carriedMs = 30_000
const askAgainMs = 50

export interface Struck {
  /** description in words */
  readonly what: string
  /** resolves when all replicas run again */
  readonly mended: Promise<void>
}

/** The watches of an entry, and its cluster. */
export interface Struggle {
  readonly ground: FaultyGround
  /** a replica without a connection of the agent, which hands all watches over */
  readonly entry: LocalReplica
  /** number of clients that watch */
  readonly watches: number
}

type Strike = (on: Struggle) => Promise<Struck>

/** Resolves once the carrier of the watches has ended. */
const strikes: Readonly<Record<FaultName, Strike>> = {
  kills: async (on) => {
    const { carrier, what } = await carrierOf(on)
    return { what: `${what} killed`, mended: on.ground.kill(carrier) }
  },
  freezes: async (on) => {
    const { carrier, what } = await carrierOf(on)
    await on.ground.freeze(carrier, frozenMs)
    return { what: `${what} frozen`, mended: Promise.resolve() }
  },
  pods: async ({ ground }) => {
    await ground.replaceAgentk()
    return { what: 'the pod of agentk replaced', mended: Promise.resolve() }
  },
  restarts: async (on) => {
    const { ground, entry } = on
    const { what } = await carrierOf(on)
    const ended: string[] = []
    for (const replica of ground.stage.running.filter((each) => each !== entry)) {
      const tookMs = await ground.restart(replica)
      await ground.stage.settle()
      ended.push(`${replica.name} ended after ${(tookMs / 1000).toFixed(1)} s`)
    }
    return { what: `${what} and the others restarted (${ended.join(', ')})`, mended: Promise.resolve() }
  },
}

export async function strike(fault: FaultName, on: Struggle): Promise<Struck> {
  const struck = await strikes[fault](on)
  struck.mended.catch(() => undefined) // awaited by the caller
  return struck
}

/** Returns the agent's last replica in rank: it carries calls of clients, and has no tunnel for them. */
export async function lastOfAll({ stage }: FaultyGround): Promise<LocalReplica> {
  const { holder } = await abortable(stage.holder(), stage.signal)
  const rank = (await statusOf(holder.socket))?.agents[0]?.rank ?? []
  const last = stage.running.find(({ name }) => name === rank.at(-1))
  if (!last) throw new Error(`the replicas of the agent are ${rank.join(', ')}`)
  return last
}

/** Returns the replica that gets most of the watches. @throws Error if not all are handed over in time */
async function carrierOf({ ground, entry, watches }: Struggle): Promise<{ carrier: LocalReplica; what: string }> {
  const { running, signal } = ground.stage
  const end = performance.now() + carriedMs
  for (;;) {
    const members = (await statusOf(entry.socket))?.members ?? []
    const calls = members.reduce((sum, each) => sum + each.calls, 0)
    const most = members.reduce((one, other) => (other.calls > one.calls ? other : one), { name: '', calls: 0 })
    const carrier = running.find(({ name }) => name === most.name)
    if (carrier && calls >= watches)
      return { carrier, what: `${carrier.name}, with ${most.calls} of ${calls} watches,` }
    if (performance.now() > end) throw new Error(`${entry.name} has handed over ${calls} watches of ${watches}`)
    await delay(askAgainMs, signal)
  }
}
