import type { KubernetesObject } from '../../../kubernetes/object.ts'
import { createdOf } from '../../../kubernetes/time.ts'
import type { ArgoStatus } from '../argo/health.ts'
import { bounded } from './text.ts'

/** What a caller must be able to list for a finding to be shown: `group/Kind`, and a namespace or '' of none. */
export type Need = readonly [kind: string, namespace: string]

/** characters of a name */
const maxAbout = 253

/** What comes first of causes that are alike otherwise: the least. */
export const ranks = { foundation: 0, container: 1, pod: 2, other: 3, summary: 4 } as const
export type Rank = (typeof ranks)[keyof typeof ranks]

/** Why one object is not well, or, Healthy, that it is whatever other rules say. */
export interface Finding {
  readonly word: ArgoStatus
  /** Kubernetes' word, or ours */
  readonly reason: string
  /** without ages: who shows it counts them from `since` and `last` */
  readonly text: string
  /** ms since 1970; undefined: no time says it */
  readonly since: number | undefined
  /** when it happened last. ms since 1970 */
  readonly last: number | undefined
  readonly rank: Rank
  /** when time alone makes it Degraded. ms since 1970 */
  readonly due: number | undefined
  /** when the grace began that is over then. ms since 1970 */
  readonly from?: number
  /** when time alone ends it. ms since 1970 */
  readonly until: number | undefined
  /** the container, webhook, group or object that it speaks of */
  readonly about: string
  /** objects that fail by it */
  readonly count: number
  /** what was read for it besides the object; empty: nothing */
  readonly needs: readonly Need[]
  /** where no time says since when: when it was seen first, or the cluster has it first. ms since 1970 */
  readonly seen?: number
}

/** A finding as rules write it. */
export interface Found {
  readonly reason: string
  readonly text: string
  readonly rank: Rank
  readonly since?: number | undefined
  /** where no time says since when: when the earliest was that the cluster still has. ms since 1970 */
  readonly seen?: number | undefined
  /** Degraded so long after `from`: 0 at once, undefined never. ms */
  readonly grace: number | undefined
  /** when the grace begins; absent: `since`, else when the object was created */
  readonly from?: number | undefined
  readonly last?: number | undefined
  readonly until?: number | undefined
  readonly about?: string
  readonly count?: number
  readonly needs?: readonly Need[]
}

export const second = 1000
export const minute = 60 * second

/** Progressing for its grace, then Degraded. Without any time to count from it stays Progressing. */
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
    needs: one.needs ?? [], // cut, more callers would get it
    ...(one.seen === undefined ? {} : { seen: one.seen }),
  }
}

/** It is well, by what was read of others. */
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

/** The more, the worse. Unknown is no failure that anybody has seen. */
export const severityOf = (word: ArgoStatus) => severities[word]

export const lesser = (one: ArgoStatus, other: ArgoStatus) => (severityOf(one) > severityOf(other) ? other : one)

/** The worst, the first of those that are as bad: due when the first of them is. */
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
