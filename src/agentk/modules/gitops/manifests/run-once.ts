import { type KubernetesObject, numberAt } from '../../../../kubernetes/object.ts'
import type { Manifest } from './manifest.ts'

/**
 * True for a Job that the cluster deletes after its end: it runs once. Git says so, or the API server did when the Job
 * was applied.
 *
 * @param entry - of the inventory
 */
export function runsOnce(manifest: Pick<Manifest, 'key' | 'object'>, entry?: { readonly runsOnce?: boolean }): boolean {
  return entry?.runsOnce === true || isCleanedUp(manifest.key, manifest.object)
}

/** True for a Job with `ttlSecondsAfterFinished`. @param object - of Git, or as the API server has stored it */
export function isCleanedUp({ group, kind }: Manifest['key'], object: KubernetesObject): boolean {
  return group === 'batch' && kind === 'Job' && numberAt(object, 'spec.ttlSecondsAfterFinished') !== undefined
}
