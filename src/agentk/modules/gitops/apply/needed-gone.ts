import type { ObjectKey } from '../manifests/object-key.ts'
import type { RoundEnd } from './apply-run.ts'

/**
 * Of what something must go before the commit can be applied. None: all of it is applied, and what has left it may go.
 * @returns undefined: nothing may go yet
 */
export function neededGone(ends: readonly RoundEnd[]): readonly ((key: ObjectKey) => boolean)[] | undefined {
  const kinds = new Set<string>()
  const namespaces = new Set<string>()
  for (const { manifest, end } of ends) {
    if (end.is === 'applied' || end.is === 'unchanged') continue
    const problem = end.is === 'failed' ? end.problem.kind : undefined
    if (problem === 'taken') kinds.add(kindText(manifest.key))
    else if (problem === 'quota') namespaces.add(manifest.key.namespace)
    else return undefined
  }
  const isOfKind = (key: ObjectKey) => kinds.has(kindText(key))
  const isInside = (key: ObjectKey) => namespaces.has(key.namespace)
  return [...(kinds.size > 0 ? [isOfKind] : []), ...(namespaces.size > 0 ? [isInside] : [])]
}

function kindText({ group, kind }: ObjectKey): string {
  return `${group}/${kind}`
}
