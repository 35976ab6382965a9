import type { KubernetesObject } from '../../../kubernetes/object.ts'
import { createdOf } from '../../../kubernetes/time.ts'
import type { ArgoStatus } from '../argo/health.ts'
import { bounded } from './text.ts'

/** Objects that a caller must be able to list to see a finding: `group/Kind`, and a namespace or '' for none. */
export type Need = readonly [kind: string, namespace: string]

/** limit of the characters of a name */
const maxAbout = 253

/** Order of causes that are otherwise alike: the lowest comes first. */
export const ranks = { foundation: 0, container: 1, pod: 2, other: 3, summary: 4 } as const
export type Rank = (typeof ranks)[keyof typeof ranks]

/** Reason why one object is not well. Healthy: the object is well, whatever other rules say. */
export interface Finding {
  readonly word: ArgoStatus
  /** Kubernetes' word, or one of this project */
  readonly reason: string
  /** without ages: a reader counts them from `since` and `last` */
  readonly text: string
  /** ms since 1970; undefined: no time is known */
  readonly since: number | undefined
  /** time at which it happened last, in ms since 1970 */
  readonly last: number | undefined
  readonly rank: Rank
  /** time at which it becomes Degraded by itself, in ms since 1970 */
  readonly due: number | undefined
  /** begin of the grace that ends at `due`, in ms since 1970 */
  readonly from?: number
  /** time at which it ends by itself, in ms since 1970 */
  readonly until: number | undefined
  /** container, webhook, group or object that it is about */
  readonly about: string
  /** number of objects that fail by it */
  readonly count: number
  /** objects that were read for it besides its own; empty: none */
  readonly needs: readonly Need[]
  /** if no begin is known: time at which it was first seen, or first known to the cluster. ms since 1970 */
  readonly seen?: number
}

/** A finding as rules write it. */
export interface Found {
  readonly reason: string
  readonly text: string
  readonly rank: Rank
  readonly since?: number | undefined
  /** if no begin is known: earliest time that the cluster still has. ms since 1970 */
  readonly seen?: number | undefined
  /** time after `from` until it is Degraded, in ms; 0: at once; undefined: never */
  readonly grace: number | undefined
  /** begin of the grace; absent: `since`, else the creation of the object */
  readonly from?: number | undefined
  readonly last?: number | undefined
  readonly until?: number | undefined
  readonly about?: string
  readonly count?: number
  readonly needs?: readonly Need[]
}

export const second = 1000
export const minute = 60 * second

/** Returns a finding that is Progressing for its grace, then Degraded. Without a begin it stays Progressing. */
export function found(object: KubernetesObject, now: number, one: Found): Finding {
  const { grace, since } = one
  if (grace === undefined) return finding('Progressing', one)
  if (grace === 0) return finding('Degraded', one)
  const from = one.from ?? since ?? createdOf(object, now)
  if (from === undefined) return finding('Progressing', one)
  const due = from + grace
  return now < due ? { ...finding('Progressing', one), due, from } : finding('Degraded', one)
}

export function finding(word: ArgoStatus, one: Omit<Found, 'grace' | 'from'>): Finding {
  return {
    word,
    reason: bounded(one.reason),
    text: bounded(one.text) || bounded(one.reason),
    since: one.since,
    last: one.last,
    rank: one.rank,
    due: undefined,
    until: one.until,
    about: (one.about ?? '').slice(0, maxAbout),
    count: one.count ?? 1,
    needs: one.needs ?? [], // never cut, else more callers would see it
    ...(one.seen === undefined ? {} : { seen: one.seen }),
  }
}

/** Returns a finding that the object is well, by other objects that were read. */
export function wellBy(...needs: readonly Need[]): Finding {
  return finding('Healthy', { reason: '', text: '', rank: ranks.other, needs })
}

const severities: Readonly<Record<ArgoStatus, number>> = {
  Healthy: 0,
  Suspended: 1,
  Unknown: 2,
  Missing: 3,
  Progressing: 4,
  Degraded: 5,
}

/** Returns a number: the higher, the worse. Unknown is no failure that anybody has seen. */
export const severityOf = (word: ArgoStatus) => severities[word]

export const lesser = (one: ArgoStatus, other: ArgoStatus) => (severityOf(one) > severityOf(other) ? other : one)

/** Returns the first of the worst findings. It is due when the first of all findings is. */
export function worstOf(findings: Iterable<Finding | undefined>): Finding | undefined {
  let worst: Finding | undefined
  let due = Number.POSITIVE_INFINITY
  for (const one of findings) {
    if (!one) continue
    due = Math.min(due, one.due ?? due)
    if (!worst || severityOf(one.word) > severityOf(worst.word)) worst = one
  }
  const isSooner = worst?.word === 'Progressing' && due < (worst.due ?? Number.POSITIVE_INFINITY)
  return worst && isSooner ? { ...worst, due } : worst
}
