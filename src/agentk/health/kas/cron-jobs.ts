import {
  at,
  type KubernetesObject,
  kindOf,
  listAt,
  nameOf,
  namespaceOf,
  textAt,
  textField,
} from '../../../kubernetes/object.ts'
import { createdOf, timeOf } from '../../../kubernetes/time.ts'
import type { Around } from './around.ts'
import { firstOf, newest } from './evidence.ts'
import { type Finding, finding, found, minute, type Need, ranks, wellBy } from './finding.ts'
import { failureOf, isComplete, lastRunFailed, newestFinished } from './jobs.ts'
import { refusedByEvents } from './refused.ts'

/** Missed runs from which they count: one alone does not. */
const leastMissed = 2
/** Resolution of times in events and objects. ms */
const secondMs = 1000

export function cronJob(object: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  if (at(object, 'spec.suspend') === true) {
    return finding('Suspended', { reason: 'Suspended', text: 'the CronJob is suspended', rank: ranks.other })
  }
  const refused = scheduleRefused(object, around) ?? refusedByEvents(object, around, 1) ?? runsMissed(object, around)
  if (refused) return refused
  const needs = [['batch/Job', namespaceOf(object)]] as const
  const base = { reason: lastRunFailed, rank: ranks.summary, grace: 0 }
  const jobs = around.childrenOf(object).filter((child) => kindOf(child) === 'batch/Job')
  const newest = newestFinished(jobs, now)
  if (newest) {
    const failed = failureOf(newest, now)
    if (!failed) return startsSkipped(object, around) ?? wellBy(...needs)
    const text = `Job ${nameOf(newest)}: ${failed.reason}: ${failed.message}`
    return found(object, now, { ...base, text, since: failed.since, needs })
  }
  const waits = startsSkipped(object, around)
  if (waits) return waits
  if (jobs.length > 0) return wellBy(...needs)
  const scheduled = timeOf(textAt(object, 'status.lastScheduleTime'), now)
  const succeeded = timeOf(textAt(object, 'status.lastSuccessfulTime'), now)
  const isActive = listAt(object, 'status.active').length > 0
  if (scheduled === undefined || isActive || (succeeded ?? 0) >= scheduled) return undefined
  const text = succeeded === undefined ? 'no run has succeeded' : 'no run has succeeded since the last schedule'
  return found(object, now, { ...base, text })
}

/** Finds a schedule that its controller cannot read. The API server does not refuse all of these. */
function scheduleRefused(object: KubernetesObject, around: Around): Finding | undefined {
  const event = newest(
    around.eventsOf(object).filter(({ reason, message }) => {
      if (reason === 'UnknownTimeZone') return isQuoted(message, textAt(object, 'spec.timeZone'))
      return /^(?:Unparseable|Invalid)Schedule$/.test(reason) && isQuoted(message, textAt(object, 'spec.schedule'))
    }),
  )
  if (!event) return undefined
  const { reason, message, first, last } = event
  const needs = eventNeeds(object)
  return found(object, around.now, { reason, text: message, rank: ranks.other, since: first, last, grace: 0, needs })
}

/** True if the message is about the present value. Else the value has been corrected since. */
const isQuoted = (message: string, value: string) => value !== '' && message.includes(value)
const eventNeeds = (object: KubernetesObject): readonly Need[] => [['Event', namespaceOf(object)]]

/** Finds runs that should have begun and did not, although no other run was in their way. */
function runsMissed(object: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  const all = around
    .eventsOf(object)
    .filter(({ reason }) => reason === 'MissSchedule' || reason === 'TooManyMissedTimes')
  if (all.length === 0) return undefined
  const freed = runsUntil(object, around)
  const missed = all.filter(({ last }) => last > freed + secondMs)
  const many = newest(missed.filter(({ reason }) => reason === 'TooManyMissedTimes'))
  const event = many ?? newest(missed)
  if (!event || (!many && new Set(missed.map(({ message }) => message)).size < leastMissed)) return undefined
  const isActive = listAt(object, 'status.active').length > 0
  if (isActive && !many) return undefined
  return found(object, now, {
    reason: event.reason,
    text: isActive ? `${event.message}; a run is still active` : event.message,
    rank: ranks.other,
    since: firstOf(missed),
    last: event.last,
    grace: isActive ? undefined : minute,
    from: firstOf(missed),
    needs: [['batch/Job', namespaceOf(object)], ...eventNeeds(object)],
  })
}

/** Reason of a CronJob whose runs do not begin while another one is active, by its `concurrencyPolicy`. */
export const stillActive = 'JobAlreadyActive'

function startsSkipped(object: KubernetesObject, around: Around): Finding | undefined {
  const event = newest(around.eventsOf(object).filter(({ reason }) => reason === stillActive))
  const active = listAt(object, 'status.active')[0]
  if (!event || !active || event.count < leastMissed || event.last <= runsUntil(object, around)) return undefined
  const { count, first, last } = event
  return found(object, around.now, {
    reason: stillActive,
    text: `${count} starts were skipped: run ${textField(active, 'name')} is still active`,
    rank: ranks.other,
    since: first,
    last,
    grace: undefined,
    needs: [['batch/Job', namespaceOf(object)], ...eventNeeds(object)],
  })
}

/** Returns when a run last began or ended, as far as is known. ms since 1970 */
function runsUntil(object: KubernetesObject, around: Around): number {
  const { now } = around
  const ends = around.childrenOf(object).flatMap((child) => {
    if (kindOf(child) !== 'batch/Job') return []
    const hasEnded = isComplete(child, now) || failureOf(child, now) !== undefined
    const ended = hasEnded ? listAt(child, 'status.conditions').map((one) => timeOf(one.lastTransitionTime, now)) : []
    return [createdOf(child, now), ...ended]
  })
  const times = ['lastScheduleTime', 'lastSuccessfulTime'].map((name) => timeOf(textAt(object, `status.${name}`), now))
  return Math.max(...[...ends, ...times].map((time) => time ?? 0))
}
