import { argoHealth } from './argo/argo.ts'
import { type ArgoHealth, type ArgoStatus, argoStatuses, type OwnRules } from './argo/health.ts'
import { kstatus } from './kstatus/kstatus.ts'
import type { Kstatus, KstatusStatus } from './kstatus/status.ts'
import type { KubernetesObject } from './object.ts'

/** What both systems say of an object. */
export interface Verdict {
  /** absent: Argo CD has no rule for the kind */
  readonly argo: ArgoHealth | undefined
  readonly kstatus: Kstatus
  /** they say different things: both are worth reading */
  readonly differs: boolean
  /** when time alone may change it. ms since 1970 */
  readonly dueAt: number | undefined
}

/** kstatus in the words of Argo CD. */
export const inArgosWords: Readonly<Record<KstatusStatus, ArgoStatus>> = {
  Current: 'Healthy',
  InProgress: 'Progressing',
  Terminating: 'Progressing',
  Failed: 'Degraded',
  Unknown: 'Unknown',
}

/** @param now - ms since 1970 */
export function verdictOf(object: KubernetesObject, now: number, own?: OwnRules): Verdict {
  const argo = argoHealth(object, own)
  const status = kstatus(object, now)
  const differs = argo === undefined || argo.status !== inArgosWords[status.status]
  return { argo, kstatus: status, differs, dueAt: status.dueAt }
}

/** As Argo CD has it: undefined is no verdict, and as good as any. */
export function worst(statuses: Iterable<ArgoStatus | undefined>): ArgoStatus | undefined {
  let found: ArgoStatus | undefined
  for (const status of statuses) {
    if (status && (!found || argoStatuses.indexOf(status) > argoStatuses.indexOf(found))) found = status
  }
  return found
}
