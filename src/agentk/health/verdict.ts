import type { KubernetesObject } from '../../kubernetes/object.ts'
import { argoHealth } from './argo/argo.ts'
import type { ArgoHealth, ArgoStatus, OwnRules } from './argo/health.ts'
import { kstatus } from './kstatus/kstatus.ts'
import type { Kstatus, KstatusStatus } from './kstatus/status.ts'

/** Verdicts of both systems on an object. */
export interface Verdict {
  /** undefined: Argo CD has no rule for the kind */
  readonly argo: ArgoHealth | undefined
  readonly kstatus: Kstatus
  /** time at which it may change by itself, in ms since 1970 */
  readonly dueAt: number | undefined
}

/** kstatus' words in those of Argo CD. */
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
  return { argo, kstatus: status, dueAt: status.dueAt }
}
