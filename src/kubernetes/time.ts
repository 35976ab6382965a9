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

const rfc3339 = /^(\d{4}-\d\d-\d\d)T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/

/**
 * Reads a time in the format of RFC 3339 alone, of any year.
 *
 * @returns ms since 1970; undefined: another format, or a day that does not exist
 */
export function rfc3339Time(text: unknown): number | undefined {
  if (typeof text !== 'string' || text.length > maxTimeText) return undefined
  const upper = text.toUpperCase()
  const [, day = ''] = rfc3339.exec(upper) ?? []
  const [midnight, time] = [Date.parse(`${day}T00:00:00Z`), Date.parse(upper)]
  if (Number.isNaN(midnight) || Number.isNaN(time)) return undefined
  return new Date(midnight).toISOString().startsWith(day) ? time : undefined
}

export function createdOf(object: KubernetesObject, now: number): number | undefined {
  return timeOf(textAt(object, 'metadata.creationTimestamp'), now)
}
