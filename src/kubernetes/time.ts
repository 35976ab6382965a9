import { type KubernetesObject, textAt } from './object.ts'

/** Earlier times count as unknown: containerd writes 1970 for a container that did not start. ms since 1970 */
const firstKnown = Date.parse('2000-01-01T00:00:00Z')
/** in characters; a time of RFC 3339 is shorter */
const maxTimeText = 64

/**
 * @param now - time of the API server, in ms since 1970
 * @returns ms since 1970, at most `now`; undefined: the time is not known
 */
export function timeOf(text: unknown, now: number): number | undefined {
  const time = exactTimeOf(text)
  return time === undefined ? undefined : Math.min(time, now)
}

/** Does the same as `timeOf`, for times that may be in the future. */
export function exactTimeOf(text: unknown): number | undefined {
  if (typeof text !== 'string' || text.length > maxTimeText) return undefined
  const time = Date.parse(text)
  return time >= firstKnown ? time : undefined
}

export function createdOf(object: KubernetesObject, now: number): number | undefined {
  return timeOf(textAt(object, 'metadata.creationTimestamp'), now)
}
