import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { kindRank } from '../manifests/kind-ranks.ts'
import type { WaveGraph } from '../round.ts'

interface Ranked {
  readonly rank: number
  /** the same array for all objects of a wave */
  readonly step: readonly string[]
  /** no dependency in its wave has a higher rank: others may wait for it */
  readonly isInOrder: boolean
}

/**
 * Orders the objects of each sync-wave by the rank of their kinds. An object that depends on one of a higher rank, in
 * its wave, blocks no other object, so there is no cycle.
 *
 * @returns for `keyText`: the objects to try before; the same array for all of a wave and a rank
 */
export function kindOrder(
  manifests: readonly { readonly key: ObjectKey }[],
  graph: WaveGraph,
): (key: string) => readonly string[] {
  const keys = new Map(manifests.map(({ key }) => [keyText(key), key]))
  const all = new Map<string, Ranked>()
  for (const text of graph.order) {
    const key = keys.get(text)
    if (!key) continue
    const [rank, step] = [kindRank(key), graph.stepBefore(text)]
    const before = graph.named(text).flatMap((one) => all.get(one) ?? [])
    const isInOrder = before.every((one) => one.step !== step || (one.isInOrder && one.rank <= rank))
    all.set(text, { rank, step, isInOrder })
  }
  const lower = new Map<readonly string[], Map<number, readonly string[]>>()
  const inOrder = [...all].filter(([, { isInOrder }]) => isInOrder)
  return (text) => {
    const own = all.get(text)
    if (!own) return []
    const ofStep = lower.get(own.step) ?? new Map<number, readonly string[]>()
    lower.set(own.step, ofStep)
    const known = ofStep.get(own.rank)
    const before =
      known ?? inOrder.flatMap(([one, { rank, step }]) => (step === own.step && rank < own.rank ? [one] : []))
    ofStep.set(own.rank, before)
    return before
  }
}
