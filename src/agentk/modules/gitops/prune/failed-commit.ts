import type { ObjectKey } from '../../../../kubernetes/key.ts'
import { kindKey } from '../../../../kubernetes/kind.ts'
import type { ApplyProblem } from '../live/refusal.ts'
import { refuserOf } from '../manifests/kind-ranks.ts'
import type { RoundEnd } from '../round.ts'

/** Commit that is not applied completely. */
export interface FailedCommit {
  /** Returns the reason to delete the object before the rest can be applied; undefined: it may stay. */
  neededBy(key: ObjectKey): string | undefined
  /** nothing may be deleted yet */
  readonly isAll: boolean
}

/** @returns undefined: the commit is applied completely, and objects that have left it may be deleted */
export function failedCommit(ends: readonly RoundEnd[]): FailedCommit | undefined {
  const reasons: ((key: ObjectKey) => string | undefined)[] = []
  let isWhole = true
  for (const { manifest, end } of ends) {
    if (end.kind === 'applied' || end.kind === 'unchanged' || end.kind === 'drifted') continue
    isWhole = false
    if (end.kind === 'left') return { neededBy: () => undefined, isAll: true } // a newer commit may want it
    if (end.kind === 'failed') reasons.push(neededFor(manifest.key, end.problem))
  }
  if (isWhole) return undefined
  const neededBy = (key: ObjectKey) => {
    for (const reason of reasons) {
      const text = reason(key)
      if (text !== undefined) return text
    }
    return undefined
  }
  return { neededBy, isAll: !ends.some(({ end }) => end.kind === 'failed' && canFree(end.problem)) }
}

const inTheWay = 'what comes needs what it holds'
const refuses = 'it may be what refuses part of the commit'

function neededFor({ group, kind, namespace }: ObjectKey, problem: ApplyProblem) {
  return (key: ObjectKey): string | undefined => {
    if (problem.kind === 'taken' && kindKey(key.group, key.kind) === kindKey(group, kind)) return inTheWay
    if (problem.kind === 'quota' && key.namespace === namespace) return inTheWay
    const refuser = refuserOf(key)
    if (refuser === 'apiService') return isUnserved(problem) && key.name.endsWith(`.${group}`) ? refuses : undefined
    if (refuser === undefined || problem.refuser === undefined) return undefined
    const isByWebhook = problem.refuser === 'webhook' // the webhooks of Kyverno and Gatekeeper act by policies
    return isByWebhook || refuser === 'policy' ? refuses : undefined
  }
}

function canFree(problem: ApplyProblem): boolean {
  return ['taken', 'quota'].includes(problem.kind) || isUnserved(problem) || problem.refuser !== undefined
}

function isUnserved({ kind }: ApplyProblem): boolean {
  return kind === 'unserved' || kind === 'unavailable' || kind === 'absent'
}
