import { request } from 'undici'
import type { KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import { delay } from '../../../src/lib/signals.ts'
import type { NodeCluster } from '../../support/nodes/node-cluster.ts'
import type { TornDown } from '../../support/processes.ts'

const everyMs = 500
/** Limit for an answer of a replica. ms */
const timeoutMs = 2000
const opsPort = 8151

/** Replicas that had tunnels at one time. */
export interface Held {
  /** as `performance.now()` */
  readonly at: number
  /** names of their pods */
  readonly holders: readonly string[]
}

/** Counts the replicas where the agent has tunnels, twice a second. */
export class TunnelCount {
  /** counts since the last `take` */
  #counts: Held[] = []
  readonly #cluster: NodeCluster
  readonly #stop = new AbortController()
  /** last metrics of each pod, by its uid */
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
   * Counts since the last call: how many, the fewest replicas, and those with fewer than two.
   *
   * @param lost - pods that no longer count
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

  /** Replicas that have tunnels now, by the name of their pod. */
  async holders(): Promise<string[]> {
    const texts = await this.#metrics()
    return [...texts].filter(([, text]) => /^connected_agents_count [1-9]/m.test(text)).map(([name]) => name)
  }

  /** Resolves when each replica knows all others. @throws the signal's reason */
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

  /** Metrics of each replica, by the name of its pod. */
  async #metrics(): Promise<Map<string, string>> {
    const { items } = await this.#cluster.admin.get('/api/v1/namespaces/kas/pods')
    const pods: KubernetesObject[] = items
    const texts = pods.map(async ({ metadata, status }) => {
      const text = status.podIP === undefined ? '' : await metricsAt(status.podIP)
      // a replica that does not answer in time keeps its last metrics
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
