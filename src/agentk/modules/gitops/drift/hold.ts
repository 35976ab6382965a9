import { entryAt, type KubernetesObject } from '../../../../kubernetes/object.ts'
import { holdAnnotation } from '../../../../proto/gitops/annotations.ts'

/** Returns the end of an object's hold: ms since the epoch. @returns undefined: there is none, or it is no time */
export function holdUntil(object: KubernetesObject): number | undefined {
  const until = Date.parse(entryAt(object, 'metadata.annotations', holdAnnotation))
  return Number.isNaN(until) ? undefined : until
}
