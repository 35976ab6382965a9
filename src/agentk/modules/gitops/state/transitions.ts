import { listAt, textAt } from '../../../../kubernetes/object.ts'

/** Condition of a source, in the form of Kubernetes. */
export interface SourceCondition {
  readonly type: string
  readonly status: 'True' | 'False' | 'Unknown'
  readonly reason: string
  readonly message: string
  /** time since which it has this status, in RFC 3339 */
  readonly lastTransitionTime: string
}

/** Time since which a condition has its status. */
export type Transition = Pick<SourceCondition, 'type' | 'status' | 'lastTransitionTime'>

/**
 * Returns conditions with the times since which they have their status.
 *
 * @param now - a condition whose status has changed has had it since its own time
 * @param before - as they were written last, also by an earlier pod
 */
export function sinceTransition(
  now: readonly SourceCondition[],
  before: readonly Transition[],
): readonly SourceCondition[] {
  return now.map((condition) => {
    const earlier = before.find(({ type, status }) => type === condition.type && status === condition.status)
    return earlier ? { ...condition, lastTransitionTime: earlier.lastTransitionTime } : condition
  })
}

/** Reads the conditions of a status, without those whose time is none. @param status - anything: people can write it */
export function transitionsIn(status: unknown): readonly Transition[] {
  return listAt(status, 'conditions').flatMap((condition) => {
    const [type, time] = [textAt(condition, 'type'), textAt(condition, 'lastTransitionTime')]
    const state = textAt(condition, 'status') as Transition['status']
    return Number.isNaN(Date.parse(time)) ? [] : [{ type, status: state, lastTransitionTime: time }]
  })
}
