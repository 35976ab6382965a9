import { type KubernetesObject, numberAt } from '../../../../kubernetes/object.ts'
import type { HealthVerdict } from '../health-verdict.ts'

/**
 * A verdict stays for so long after the Pod that is to blame was deleted. Another Pod takes its place, and needs some
 * seconds to fail. ms
 */
const replacedMs = 20_000

/** A workload, with its verdicts before and after the Pod that was to blame has gone. */
export interface ReplacedPod {
  /** the workload */
  readonly object: KubernetesObject
  readonly before: HealthVerdict | undefined
  readonly after: HealthVerdict
  /** returns the time at which a Pod was deleted, in ms since 1970; undefined: it was not, or long ago */
  readonly deletedAt: (name: string) => number | undefined
  /** ms since 1970 */
  readonly now: number
}

/** Workloads whose failing Pods are replaced: they stay degraded, unless more of their Pods become ready. */
export class ReplacedPods {
  /** by the workload's `keyText`: number of ready Pods when its Pod went */
  readonly #ready = new Map<string, number>()

  /** @returns time until which the earlier verdict stays, in ms since 1970; undefined: the later one counts */
  keptUntil(text: string, { object, before, after, deletedAt, now }: ReplacedPod): number | undefined {
    const culprit = before?.word === 'Degraded' && after.word === 'Progressing' ? before.cause?.culprit : undefined
    const at = culprit?.kind === 'Pod' ? deletedAt(culprit.name) : undefined
    const ready = readyPods(object)
    const least = this.#ready.get(text) ?? ready
    const isOver = at === undefined || now < at || now >= at + replacedMs // the clock may have been set back
    if (isOver || ready > least) {
      this.#ready.delete(text)
      return undefined
    }
    this.#ready.set(text, least)
    return at + replacedMs
  }

  delete(text: string): void {
    this.#ready.delete(text)
  }
}

/** Returns the number of Pods that are ready, or have done their work. */
function readyPods(object: KubernetesObject): number {
  const counts = ['readyReplicas', 'numberReady', 'succeeded'].map((name) => numberAt(object, `status.${name}`))
  return counts.find((count) => count !== undefined) ?? 0
}
