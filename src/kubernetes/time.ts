import { type KubernetesObject, textAt } from './object.ts'

/** Times before it are unknown ones: containerd writes 1970 for what did not start. ms */
const firstKnown = Date.parse('2000-01-01T00:00:00Z')
/** characters: RFC 3339 has fewer */
const maxTimeText = 64

/**
 * @param now - of the API server. ms since 1970
 * @returns ms since 1970; a time to come is now; undefined: it is not known
 */
export function timeOf(text: unknown, now: number): number | undefined {
  const time = exactTimeOf(text)
  return time === undefined ? undefined : Math.min(time, now)
}

/** As `timeOf`, for times that may well be to come. */
export function exactTimeOf(text: unknown): number | undefined {
  if (typeof text !== 'string' || text.length > maxTimeText) return undefined
  const time = Date.parse(text)
  return time >= firstKnown ? time : undefined
}

export function createdOf(object: KubernetesObject, now: number): number | undefined {
  return timeOf(textAt(object, 'metadata.creationTimestamp'), now)
}
