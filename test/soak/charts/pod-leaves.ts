import type { KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import { delay } from '../../../src/lib/signals.ts'
import type { NodeCluster } from '../../support/nodes/node-cluster.ts'
import type { TornDown } from '../../support/processes.ts'
import type { Leave } from '../rolling/ends.ts'

/** Graces of a namespace's pods, from their order to stop. ms */
export interface PodGraces {
  readonly namespace: string
  /** grace of watches; absent: no watch ends by it */
  readonly listenMs?: number
  /** grace of all other calls */
  readonly wholeMs: number
}

/** pause before a watch of pods begins again. ms */
const retryMs = 200

type PodLeave = { -readonly [Key in keyof Leave]: Leave[Key] } & { readonly image: string }

/**
 * Records which pods leave, and when: the time when the API server reports it, which is never after the pod's order to
 * stop.
 */
export class PodLeaves {
  readonly #leaves = new Map<string, PodLeave>()
  readonly #cluster: NodeCluster
  readonly #stop = new AbortController()

  private constructor(cluster: NodeCluster) {
    this.#cluster = cluster
  }

  static start(t: TornDown, cluster: NodeCluster, all: readonly PodGraces[]): PodLeaves {
    const leaves = new PodLeaves(cluster)
    t.teardown(() => leaves.#stop.abort())
    for (const graces of all) void leaves.#follow(graces)
    return leaves
  }

  get all(): Leave[] {
    return [...this.#leaves.values()]
  }

  /** @param tag - tag of their image */
  of(tag: string): Leave[] {
    return [...this.#leaves.values()].filter(({ image }) => image.endsWith(`:${tag}`))
  }

  async #follow(graces: PodGraces): Promise<void> {
    const { signal } = this.#stop
    const path = `/api/v1/namespaces/${graces.namespace}/pods`
    while (!signal.aborted) {
      try {
        for await (const { type, object } of this.#cluster.admin.watch(path, signal)) this.#note(type, object, graces)
      } catch {
        // it begins again, or has been stopped
      }
      await delay(retryMs)
    }
  }

  #note(type: string, { metadata, spec, status }: KubernetesObject, { listenMs, wholeMs }: PodGraces): void {
    const now = performance.now()
    if (metadata.deletionTimestamp !== undefined && !this.#leaves.has(metadata.uid)) {
      const listenEndsAt = listenMs === undefined ? Number.POSITIVE_INFINITY : now + listenMs
      const { image } = spec.containers[0]
      const leave = { replica: metadata.name, image, listenEndsAt, graceEndsAt: now + wholeMs }
      this.#leaves.set(metadata.uid, { ...leave, exitedAt: Number.POSITIVE_INFINITY })
    }
    const leave = this.#leaves.get(metadata.uid)
    const containers: KubernetesObject[] = status?.containerStatuses ?? []
    const hasEnded = type === 'DELETED' || containers.some(({ state }) => state?.terminated !== undefined)
    if (leave && hasEnded) leave.exitedAt = Math.min(leave.exitedAt, now)
  }
}
