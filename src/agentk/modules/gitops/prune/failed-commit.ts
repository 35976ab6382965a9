import type { ObjectKey } from '../../../../kubernetes/key.ts'
import type { RoundEnd } from '../apply/apply-run.ts'

/** Part of a commit is not applied. */
export interface FailedCommit {
  /** it must go before the rest can be applied */
  readonly needed: (key: ObjectKey) => boolean
  /** nothing may go yet */
  readonly isAll: boolean
}

/** @returns undefined: all of it is applied, and what has left it may go */
export function failedCommit(ends: readonly RoundEnd[]): FailedCommit | undefined {
  const kinds = new Set<string>()
  const namespaces = new Set<string>()
  for (const { manifest, end } of ends) {
    if (end.kind === 'applied' || end.kind === 'unchanged') continue
    const problem = end.kind === 'failed' ? end.problem.kind : undefined
    if (problem === 'taken') kinds.add(kindText(manifest.key))
    else if (problem === 'quota') namespaces.add(manifest.key.namespace)
    else return { needed: () => false, isAll: true }
  }
  if (kinds.size + namespaces.size === 0) return undefined
  return { needed: (key) => kinds.has(kindText(key)) || namespaces.has(key.namespace), isAll: false }
}

function kindText({ group, kind }: ObjectKey): string {
  return `${group}/${kind}`
}
