import { entryAt, type KubernetesObject } from '../../../../kubernetes/object.ts'

/** Annotation: the end of a hold, RFC 3339. Until then, drift of the object is left as it is. */
const holdAnnotation = 'agent.gitlab.com/correct-after'

/** Returns the end of an object's hold: ms since the epoch. @returns undefined: there is none, or it is no time */
export function holdUntil(object: KubernetesObject): number | undefined {
  const until = Date.parse(entryAt(object, 'metadata.annotations', holdAnnotation))
  return Number.isNaN(until) ? undefined : until
}
