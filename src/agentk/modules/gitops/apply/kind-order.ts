import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { kindRank } from '../manifests/kind-ranks.ts'
import type { WaveGraph } from '../round.ts'

interface Ranked {
  readonly rank: number
  /** the same array for all of a wave */
  readonly step: readonly string[]
  /** nothing of its wave that it waits for has a higher rank: the others may wait for it */
  readonly isInOrder: boolean
}

/**
 * By kind, within each sync-wave: which objects are to have been tried before an object is. An object that waits, by
 * depends-on, for one of a higher rank is waited for by none, so there is no cycle.
 *
 * @returns for `keyText` of one of them: the same array for all of a wave and a rank
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
