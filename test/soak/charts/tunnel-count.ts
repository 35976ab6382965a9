import { request } from 'undici'
import type { KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import { delay } from '../../../src/lib/signals.ts'
import type { NodeCluster } from '../../support/nodes/node-cluster.ts'
import type { TornDown } from '../../support/processes.ts'

const everyMs = 500
/** A replica says nothing for so long. ms */
const timeoutMs = 2000
const opsPort = 8151

/** The replicas that had tunnels, when they were asked. */
export interface Held {
  /** as `performance.now()` */
  readonly at: number
  /** names of their pods */
  readonly holders: readonly string[]
}

/** At which replicas the agent has tunnels, asked twice a second. */
export class TunnelCount {
  /** since it was begun anew */
  #counts: Held[] = []
  readonly #cluster: NodeCluster
  readonly #stop = new AbortController()
  /** what each pod has said last, by its uid */
  readonly #last = new Map<string, string>()

  private constructor(cluster: NodeCluster) {
    this.#cluster = cluster
  }

  static start(t: TornDown, cluster: NodeCluster): TunnelCount {
    const count = new TunnelCount(cluster)
    const run = count.#run()
    t.teardown(async () => {
      count.#stop.abort()
      await run
    })
    return count
  }

  /**
   * What was found since the last time: how often it was asked, the fewest replicas, and when there were fewer than two.
   *
   * @param lost - pods that count no more
   */
  take(lost: readonly string[] = []): {
    readonly times: number
    readonly fewest: number
    readonly lacking: readonly Held[]
  } {
    const counts = this.#counts.map(({ at, holders }) => ({
      at,
      holders: holders.filter((name) => !lost.includes(name)),
    }))
    this.#counts = []
    const lacking = counts.filter(({ holders }) => holders.length < 2)
    return { times: counts.length, fewest: Math.min(...counts.map(({ holders }) => holders.length)), lacking }
  }

  /** The replicas that have tunnels now, by the name of their pod. */
  async holders(): Promise<string[]> {
    const texts = await this.#metrics()
    return [...texts].filter(([, text]) => /^connected_agents_count [1-9]/m.test(text)).map(([name]) => name)
  }

  /** Resolves when each replica knows all. @throws the signal's reason */
  async allKnown(signal: AbortSignal): Promise<void> {
    for (;;) {
      const texts = await this.#metrics()
      const members = new RegExp(`^kas_members ${texts.size}$`, 'm')
      if ([...texts.values()].every((text) => members.test(text))) return
      await delay(everyMs, signal)
    }
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      const at = performance.now()
      this.#counts.push({ at, holders: await this.holders() })
      await delay(Math.max(0, everyMs - (performance.now() - at)))
    }
  }

  /** What each replica says, by the name of its pod. */
  async #metrics(): Promise<Map<string, string>> {
    const { items } = await this.#cluster.admin.get('/api/v1/namespaces/kas/pods')
    const pods: KubernetesObject[] = items
    const texts = pods.map(async ({ metadata, status }) => {
      const text = status.podIP === undefined ? '' : await metricsAt(status.podIP)
      // of one that is slow to answer it is taken for granted that all is as it was
      const known = text ?? this.#last.get(metadata.uid) ?? ''
      this.#last.set(metadata.uid, known)
      return [metadata.name, known] as const
    })
    return new Map(await Promise.all(texts))
  }
}

/** @returns undefined: it has not answered in time */
async function metricsAt(address: string): Promise<string | undefined> {
  const signal = AbortSignal.timeout(timeoutMs)
  try {
    const { body } = await request(`http://${address}:${opsPort}/metrics`, { signal })
    return await body.text()
  } catch {
    return signal.aborted ? undefined : '' // it has not begun to listen, or has ended
  }
}
