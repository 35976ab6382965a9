import { numberAt } from '../../../../kubernetes/object.ts'
import type { Manifest } from './manifest.ts'

/** True for a Job that the cluster deletes after its end: it runs once. */
export function runsOnce(manifest: Pick<Manifest, 'key' | 'object'>): boolean {
  const { group, kind } = manifest.key
  if (group !== 'batch' || kind !== 'Job') return false
  return numberAt(manifest.object, 'spec.ttlSecondsAfterFinished') !== undefined
}
