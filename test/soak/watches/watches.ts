import { delay } from '../../../src/lib/signals.ts'
import { FaultyGround, namespace } from '../exactly-once/faulty-ground.ts'
import type { Findings, Stage } from '../scene.ts'
import { watchAgain, watchByKubectl, watchByPage, watchPlainly, ways } from './clients.ts'
import { Counter, counterName } from './counter.ts'
import { type FaultCounts, faultNames, lastOfAll, strike } from './faults.ts'
import { informerProgram, watchByInformer } from './informer.ts'
import type { Seen } from './seen.ts'

export interface WatchesOptions extends FaultCounts {
  /** kills of the clients' own replica, at the end */
  readonly entries: number
  /** changes of the watched object, a second */
  readonly rate: number
}

/** Graces of a replica that leaves: it ends watches one after another, and all before the end of its shutdown grace. */
const graces = { listen: '1s', shutdown: '15s', watch: '3s' }
/**
 * Number of replicas. While one is away, the agent has a home and a standby beside the entry, where watches would be
 * safe.
 */
const replicas = 4
/** pause between two faults, in which some changes come by the new way. ms */
const betweenMs = 2000
const arrivalMs = 60_000

/**
 * Clients watch one object through a replica that does not hold the agent, while the carriers of the watches are
 * killed, frozen and replaced. Each client sees each change once, in order. No watch ends, and no client watches or
 * lists again. Then the clients' replica is killed: clients that can resume do so.
 */
export async function watchesScene(
  { say, signal }: Pick<Stage, 'say' | 'signal'>,
  { assets }: { assets: string },
  options: WatchesOptions,
): Promise<Findings> {
  const informer = await informerProgram()
  if ('missing' in informer) say(`without a client-go informer: it ${informer.missing}`)
  const ground = await FaultyGround.start({ assets, say, signal, graces, replicas })
  const over = new AbortController()
  try {
    const { stage, admin, warden } = ground
    const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`
    const counter = new Counter(admin, { path, perSecond: options.rate })
    await counter.start()
    const { resourceVersion } = (await admin.get(path)).metadata
    const entry = await lastOfAll(ground)
    ground.keepAgentsFrom(entry)
    const place = { caller: stage.caller(entry), path, signal: over.signal }
    const [inCluster, asChild] = [ground.place(entry.name), { warden, signal: over.signal }]
    const enduring = [
      ...Object.keys(ways).map((name) => watchPlainly(name, resourceVersion, place)),
      ...[['-o', 'jsonpath={.spec.holderIdentity}{"\\n"}'], ['--no-headers']].map((output) =>
        watchByKubectl(output, inCluster, asChild),
      ),
      watchByPage(resourceVersion, ground.access(entry), { namespace, signal: over.signal }),
    ]
    const repeating = [
      watchAgain(resourceVersion, place),
      ...('program' in informer ? [watchByInformer(informer.program, inCluster, asChild)] : []),
    ]
    const all = [...enduring, ...repeating]
    /** Resolves once all of them have the newest value, or cannot get it. @returns that value, and the duration */
    const newest = async (clients: readonly Seen[], value = counter.value) => {
      const began = performance.now()
      const limit = AbortSignal.any([signal, AbortSignal.timeout(arrivalMs)])
      await Promise.all(clients.map((one) => one.until(value, limit).catch(() => undefined)))
      return { value, tookMs: Math.round(performance.now() - began) }
    }
    const told = () => `${all.map(({ last }) => last).join(' ')} of ${counter.value}`
    await newest(all)
    for (const one of all) one.begins()

    const tookMs: number[] = []
    for (const fault of faultNames.flatMap((name) => Array<typeof name>(options[name]).fill(name))) {
      const { what, mended } = await strike(fault, { ground, entry, watches: all.length })
      tookMs.push((await newest(all, counter.value + 1)).tookMs)
      say(`${what}: ${told()}`)
      await mended
      await stage.settle()
      await delay(betweenMs, signal)
    }
    const { value } = await newest(all)
    const failures = all.flatMap((one) => [...one.faults(value), ...begunAnew(one)])
    for (const one of repeating) one.begins()

    const entryTookMs: number[] = []
    for (let i = 0; i < options.entries; i++) {
      await ground.kill(entry)
      await stage.settle()
      entryTookMs.push((await newest(repeating)).tookMs)
      say(`${entry.name}, where they came in, killed: ${told()}`)
      await delay(betweenMs, signal)
    }
    const last = await counter.stop()
    await newest(repeating, last)
    failures.push(...repeating.flatMap((one) => one.faults(last)))
    const clean = enduring.filter(({ end }) => end === 'in order')
    failures.push(...clean.map(({ name }) => `${name}: it ended in order as the entry was killed`))
    return {
      figures: [
        `${all.length} clients of one object, ${counterName}: ${last} changes; ${faultNames.map((name) => `${options[name]} ${name}`).join(', ')}`,
        `all had the newest ${tookMs.join(', ')} ms after it`,
        ...all.map(({ name, values }) => `${name}: saw ${values.length}, from ${values[0]} to ${values.at(-1)}`),
        ...('missing' in informer ? [`no client-go informer: it ${informer.missing}`] : []),
        `then the entry was killed ${options.entries} times; who begins anew had the newest ${entryTookMs.join(', ')} ms after it was back`,
        ...repeating.map(({ name, watches, lists }) => `${name}: ${watches} watches asked for, ${lists} lists`),
        ...(options.entries > 0 ? enduring.map(({ name, end }) => `${name}: ${end ?? 'it goes on'}`) : []),
      ],
      failures,
    }
  } finally {
    over.abort()
    await ground.stop()
  }
}

function begunAnew({ name, watches, lists }: Seen): string[] {
  return watches + lists === 0 ? [] : [`${name}: asked for ${watches} watches and ${lists} lists more`]
}
