import { planDigest } from '../prune/plan-digest.ts'
import type { RoundEnd } from './apply-run.ts'

/** What waits for approval to be made again. */
export interface ReplacementPlan {
  /** what an approval names; empty: nothing waits for one */
  readonly digest: string
  readonly ends: readonly RoundEnd[]
  readonly uids: ReadonlySet<string>
}

export function replacementPlan(all: readonly RoundEnd[], of: { id: string; commit: string }): ReplacementPlan {
  const asking = all.flatMap((one) => {
    const uid = one.end.kind === 'failed' ? one.end.problem.replaces : undefined
    return uid === undefined ? [] : [{ one, uid }]
  })
  const deletes = asking.map(({ one, uid }) => ({ key: one.manifest.key, uid }))
  const uids = new Set(deletes.map(({ uid }) => uid))
  return { digest: planDigest(of, deletes), ends: asking.map(({ one }) => one), uids }
}
