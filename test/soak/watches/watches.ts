import type { LocalReplica } from '../../../dev/start/local-replica.ts'
import { holdersOf, type ReplicaView, statusOf } from '../../../dev/start/replica-table.ts'
import { abortable, delay } from '../../../src/lib/signals.ts'
import { FaultyGround, namespace } from '../exactly-once/faulty-ground.ts'
import type { Findings, Stage } from '../scene.ts'
import { watchByKubectl, watchPlainly, ways } from './clients.ts'
import { Counter, counterName } from './counter.ts'

export interface WatchesOptions {
  /** of the replica that holds the agent */
  readonly kills: number
  readonly freezes: number
  /** changes of the object that is watched, a second */
  readonly rate: number
}

/** A frozen replica has lost its calls by then. ms */
const frozenMs = 12_000
/** between two faults: some changes come by the new way. ms */
const betweenMs = 2000
const arrivalMs = 60_000

/**
 * Clients that watch one object through the replicas that do not hold the agent, while the one that does is killed and frozen:
 * each sees each change once, in order, and none ends.
 */
export async function watchesScene(
  { say, signal }: Pick<Stage, 'say' | 'signal'>,
  { assets }: { assets: string },
  { kills, freezes, rate }: WatchesOptions,
): Promise<Findings> {
  const ground = await FaultyGround.start({ assets, say, signal })
  const over = new AbortController()
  try {
    const { stage, admin, warden } = ground
    const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`
    const counter = new Counter(admin, { path, perSecond: rate })
    await counter.start()
    const { metadata } = await admin.get(path)
    const entry = await lastOfAll(ground)
    const place = { caller: stage.caller(entry), path, signal: over.signal }
    const seen = [
      ...Object.keys(ways).map((name) => watchPlainly(name, metadata.resourceVersion, place)),
      ...[['-o', 'jsonpath={.spec.holderIdentity}{"\\n"}'], ['--no-headers']].map((output) =>
        watchByKubectl(output, ground.place(entry.name), { warden, signal: over.signal }),
      ),
    ]
    const watched = async () => {
      const { value } = counter
      const limit = AbortSignal.any([signal, AbortSignal.timeout(arrivalMs)])
      await Promise.all(seen.map((one) => one.until(value, limit).catch(() => undefined)))
    }
    await watched()
    const faults = [...Array<'kill'>(kills).fill('kill'), ...Array<'freeze'>(freezes).fill('freeze')]
    const tookMs: number[] = []
    for (const fault of faults) {
      const holder = await holderBeside(ground, entry)
      const began = performance.now()
      await Promise.all([
        fault === 'kill' ? ground.kill(holder) : ground.freeze(holder, frozenMs),
        (async () => {
          await delay(fault === 'kill' ? 0 : frozenMs)
          const at = performance.now()
          await watched()
          tookMs.push(performance.now() - (fault === 'kill' ? began : at))
        })(),
      ])
      await stage.settle()
      say(`${fault} of ${holder.name}: ${seen.map(({ last }) => last).join(' ')} of ${counter.value}`)
      await delay(betweenMs, signal)
    }
    const last = await counter.stop()
    await Promise.all(seen.map((one) => one.until(last, AbortSignal.timeout(arrivalMs)).catch(() => undefined)))
    const failures = seen.flatMap((one) => one.faults(last))
    return {
      figures: [
        `${seen.length} clients of one object, ${counterName}: ${last} changes, ${kills} kills and ${freezes} freezes of the holder`,
        `all had the newest ${tookMs.map((ms) => Math.round(ms)).join(', ')} ms after it`,
        ...seen.map(({ name, values }) => `${name}: saw ${values.length}, from ${values[0]} to ${values.at(-1)}`),
      ],
      failures,
    }
  } finally {
    over.abort()
    await ground.stop()
  }
}

/** The replica where the agent is last of all: it carries calls of clients whatever happens to the others. */
async function lastOfAll({ stage }: FaultyGround): Promise<LocalReplica> {
  const { holder } = await abortable(stage.holder(), stage.signal)
  const rank = (await statusOf(holder.socket))?.agents[0]?.rank ?? []
  const last = stage.running.find(({ name }) => name === rank.at(-1))
  if (!last) throw new Error(`the replicas of the agent are ${rank.join(', ')}`)
  return last
}

async function holderBeside({ stage }: FaultyGround, entry: LocalReplica): Promise<LocalReplica> {
  await stage.until('another replica than the entry holds the agent', (views) => isHeldElsewhere(views, entry))
  return (await abortable(stage.holder(), stage.signal)).holder
}

function isHeldElsewhere(views: readonly ReplicaView[], { name }: LocalReplica): boolean {
  const [home] = holdersOf(views)
  return home !== undefined && home !== name
}
