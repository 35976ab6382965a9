import { namespaceOf } from '../../../../kubernetes/object.ts'
import { type Evidence, firstOf, newest } from '../evidence.ts'
import { type Finding, found, minute, ranks, second } from '../finding.ts'
import {
  type Container,
  type EndedLife,
  endedLife,
  endOf,
  type PodContext,
  restarts,
  runningSince,
  waitingOf,
} from './container.ts'
import { isCreating } from './creating.ts'

/** restarts after which it does not recover by itself */
const hopelessRestarts = 3
/** The kubelet forgets its back-off after a life of so long. ms */
const longLifeMs = 10 * minute
/** Least time for which a container that has crashed is watched once it runs. ms */
const leastUpMs = 10 * second
/** Delay of events: those of one Pod share a budget of one in five minutes, and may be about an earlier life. ms */
const lateMs = 10 * minute

export const isStartError = (reason: string) =>
  reason === 'StartError' || reason === 'ContainerCannotRun' || reason === 'RunContainerError'

/** Judges a container that ends again and again: it waits, has just ended, or runs between two ends. */
export function crashOf(context: PodContext, container: Container): Finding | undefined {
  const { pod, now, evidence } = context
  const crash = crashedLife(context, container)
  if (!crash) return undefined
  const { life, until } = crash
  const of = evidence.filter((one) => isOf(one, container.name))
  const { reason, proof, begun } = causeOf(life, of, waitingOf(container)?.reason ?? '')
  const backOff = firstOf(of.filter((one) => one.reason === 'BackOff' && /restarting failed/.test(one.message)))
  const unready = context.ready === 'False' ? context.readySince : undefined
  // the status has only the last end, and back-off begins with the second, so the first may be forgotten
  const isFirst = container.restarts === (runningSince(container, now) === undefined ? 0 : 1)
  const isSteady = isFirst || life.started === undefined || (unready ?? 0) <= life.started
  const exact = least(isSteady ? unready : undefined, isFirst ? life.finished : undefined, begun)
  const seen = least(unready, life.finished, backOff, begun)
  const isExact = seen === undefined || (exact !== undefined && exact <= seen)
  const text = [
    `container ${container.name}: ${endOf(life, container)}`,
    restartsText(container),
    ...(proof ? [proof.message] : []),
  ].join(', ')
  const isByEvent = proof !== undefined || backOff !== undefined
  return found(pod, now, {
    reason,
    text,
    rank: ranks.container,
    since: isExact ? (exact ?? context.since) : undefined,
    seen: isExact ? undefined : seen,
    last: life.finished,
    until,
    grace: container.restarts >= hopelessRestarts && isOfRow(container, life) ? 0 : undefined,
    about: container.name,
    needs: isByEvent ? [['Event', namespaceOf(pod)]] : [],
  })
}

function least(...times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined)
  return known.length > 0 ? Math.min(...known) : undefined
}

/** Describes the restarts, which are counted since the Pod's begin, not since it began to fail. */
function restartsText({ restarts }: Container): string {
  return restarts > 1 ? `${restarts} restarts in all` : `${restarts} ${restarts === 1 ? 'restart' : 'restarts'}`
}

interface Crash {
  readonly life: EndedLife
  /** time from which it is no crash in a row any more, if nothing happens. ms since 1970 */
  readonly until?: number
}

/** Returns the last life, if it is one of a row of crashes. */
function crashedLife({ pod, now }: PodContext, container: Container): Crash | undefined {
  const waiting = waitingOf(container)
  const last = endedLife(container, 'lastState', now)
  if (waiting) {
    if (waiting.reason === 'CrashLoopBackOff' || isStartError(waiting.reason))
      return { life: last ?? unknownLife(waiting) }
    const isAgain = isCreating(waiting.reason) && container.restarts > 0
    return last && isAgain ? until(now, last, (last.finished ?? 0) + longLifeMs) : undefined
  }
  const ended = endedLife(container, 'state', now)
  if (ended) return restarts(pod, container, ended) ? { life: ended } : undefined
  const started = runningSince(container, now)
  return started !== undefined && last ? until(now, last, betweenCrashes(container, started, last)) : undefined
}

const until = (now: number, life: EndedLife, end: number): Crash | undefined =>
  now < end ? { life, until: end } : undefined

/** True for a crash in a row. After a long life the kubelet does not wait, however many crashes came before. */
function isOfRow(container: Container, life: EndedLife): boolean {
  return waitingOf(container)?.reason === 'CrashLoopBackOff' || lengthOf(life) < longLifeMs
}

const lengthOf = ({ started, finished }: EndedLife) =>
  started !== undefined && finished !== undefined ? finished - started : 0

function unknownLife({ reason, message }: { reason: string; message: string }): EndedLife {
  const isStart = isStartError(reason)
  return {
    reason: isStart ? reason : '',
    exitCode: undefined,
    signal: 0,
    message: isStart ? message : '',
    started: undefined,
    finished: undefined,
  }
}

/** Returns until when a container between two crashes is not well: for twice its last life. ms since 1970 */
function betweenCrashes(container: Container, started: number, last: EndedLife): number {
  const life = lengthOf(last)
  if (container.restarts < 2 || life >= longLifeMs) return Number.NEGATIVE_INFINITY
  return started + Math.min(longLifeMs, Math.max(leastUpMs, 2 * life))
}

interface CrashCause {
  readonly reason: string
  /** event that shows it */
  readonly proof?: Evidence
  /** time at which the first life of a row ended like that, by events, in ms since 1970 */
  readonly begun?: number | undefined
}

/** Returns the cause of a life's end. */
function causeOf(life: EndedLife, evidence: readonly Evidence[], waiting: string): CrashCause {
  if (life.reason === 'OOMKilled') return { reason: 'OOMKilled' }
  if (isStartError(life.reason) || isStartError(waiting)) return { reason: 'StartError' }
  const near = evidence.filter((one) => isNear(one, life))
  const hook = newest(near.filter((one) => one.reason === 'FailedPostStartHook'))
  if (hook) return { reason: 'PostStartHookError', proof: hook }
  const killed = newest(near.filter((one) => one.reason === 'Killing'))
  const unhealthy = newest(near.filter((one) => one.reason === 'Unhealthy' && probeOf(one) !== undefined))
  if (killed) {
    const probe = killerOf(killed)
    const begun = firstOf(near.filter((one) => one.reason === 'Killing' && killerOf(one) === probe))
    const text = newest(near.filter((one) => one.reason === 'Unhealthy' && probeOf(one) === probe))
    return { reason: `${probe}ProbeFailed`, proof: text ?? killed, begun }
  }
  const isKilled = life.exitCode === 137 || life.exitCode === 143
  if (unhealthy && isKilled) return { reason: `${probeOf(unhealthy)}ProbeFailed`, proof: unhealthy }
  return { reason: 'CrashLoopBackOff' }
}

const killerOf = ({ message }: Evidence) => (/failed startup probe/.test(message) ? 'Startup' : 'Liveness')

/** Returns the probe whose failure ends a container. */
function probeOf({ message }: Evidence): 'Liveness' | 'Startup' | undefined {
  if (message.startsWith('Liveness probe ')) return 'Liveness'
  return message.startsWith('Startup probe ') ? 'Startup' : undefined
}

function isOf({ container, message }: Evidence, name: string): boolean {
  const named = container || /\bcontainer (\S+)/i.exec(message)?.[1]
  return named === undefined || named === name
}

/** Compares loosely, because events come late, and one stands for several lives. */
function isNear({ first, last }: Evidence, { started, finished }: EndedLife): boolean {
  const [from, to] = [started ?? finished, finished ?? started]
  return (from === undefined || last >= from - lateMs) && (to === undefined || first <= to + minute)
}
