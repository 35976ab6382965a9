import type { KubernetesObject } from '../../../kubernetes/object.ts'

/** Statuses of kstatus, without NotFound, which is no verdict on an object that exists. */
export const kstatuses = ['Current', 'InProgress', 'Terminating', 'Failed', 'Unknown'] as const
export type KstatusStatus = (typeof kstatuses)[number]

export interface Kstatus {
  readonly status: KstatusStatus
  /** reason of the condition that kstatus adds: Reconciling while InProgress, Stalled once Failed */
  readonly reason: string
  readonly text: string
  /** time at which it may change by itself, in ms since 1970 */
  readonly dueAt?: number
}

/** @param now - ms since 1970 */
export type KstatusRule = (object: KubernetesObject, now: number) => Kstatus

export const current = (text: string): Kstatus => ({ status: 'Current', reason: '', text })
export const inProgress = (reason: string, text: string): Kstatus => ({ status: 'InProgress', reason, text })
export const failed = (reason: string, text: string): Kstatus => ({ status: 'Failed', reason, text })
