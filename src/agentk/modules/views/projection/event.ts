import { type KubernetesObject, kindOf, numberAt, textAt } from '../../../../kubernetes/object.ts'
import type { EventRow } from '../../../../proto/views-json.ts'
import { cut, maxText } from './bounds.ts'

/**
 * Reads the fields of an event that are kept.
 *
 * @returns undefined: the object is no event
 */
export function readEvent(object: KubernetesObject): EventRow | undefined {
  const u = textAt(object, 'metadata.uid')
  const type = textAt(object, 'type')
  if (u === '' || (type !== 'Normal' && type !== 'Warning')) return undefined
  const about = (object.involvedObject ?? {}) as KubernetesObject
  return {
    u,
    ns: textAt(object, 'metadata.namespace'),
    about: [short(kindOf(about)), short(textAt(about, 'name')), short(textAt(about, 'uid'))],
    type,
    reason: short(textAt(object, 'reason')),
    text: short(textAt(object, 'message')),
    count: numberAt(object, 'count') ?? numberAt(object, 'series.count') ?? 1,
    at: timeOf(object),
  }
}

/** Time when the event was last seen, in ms since 1970; 0: unknown. */
function timeOf(object: KubernetesObject): number {
  const times = [
    'lastTimestamp',
    'series.lastObservedTime',
    'eventTime',
    'firstTimestamp',
    'metadata.creationTimestamp',
  ]
  const found = times.map((path) => Date.parse(textAt(object, path))).filter((time) => !Number.isNaN(time))
  return found[0] ?? 0
}

const short = (text: string) => cut(text, maxText)

/** Orders the latest first; events of the same time by uid, so that all views show them alike. */
export function compareEvents(one: EventRow, other: EventRow): number {
  if (one.at !== other.at) return other.at - one.at
  return one.u < other.u ? -1 : one.u > other.u ? 1 : 0
}
