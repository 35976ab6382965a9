import { entryAt, type KubernetesObject } from '../../../../kubernetes/object.ts'

/** When other tools run a hook that is never run here: on failure, deletion, rollback or test; `Skip`: never. */
const neverRun: Readonly<Record<string, ReadonlySet<string>>> = {
  'argocd.argoproj.io/hook': new Set(['SyncFail', 'PreDelete', 'PostDelete', 'Skip']),
  'helm.sh/hook': new Set([
    'pre-delete',
    'post-delete',
    'pre-rollback',
    'post-rollback',
    'test',
    'test-success',
    'test-failure',
  ]),
}

/** An object that other tools take for a hook. */
export interface Hook {
  /** `helm.sh/hook: test` */
  readonly text: string
  /** it is an object like others here; else it is not made */
  readonly isMade: boolean
}

/** @returns undefined: it is none */
export function hookOf(object: KubernetesObject): Hook | undefined {
  for (const [annotation, never] of Object.entries(neverRun)) {
    const value = entryAt(object, 'metadata.annotations', annotation)
    const events = value
      .split(',')
      .map((event) => event.trim())
      .filter(Boolean)
    if (events.length === 0) continue
    const isSkipped = events.includes('Skip') || events.every((event) => never.has(event))
    return { text: `${annotation}: ${events.join(', ')}`, isMade: !isSkipped }
  }
  return undefined
}
