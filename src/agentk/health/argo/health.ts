import type { KubernetesObject } from '../../../kubernetes/object.ts'

/** Statuses from best to worst, in the order of Argo CD. */
export const argoStatuses = ['Healthy', 'Suspended', 'Progressing', 'Missing', 'Degraded', 'Unknown'] as const
export type ArgoStatus = (typeof argoStatuses)[number]

export interface ArgoHealth {
  readonly status: ArgoStatus
  readonly text: string
}

/** Judges an object of one kind as Argo CD does. */
export type ArgoRule = (object: KubernetesObject) => ArgoHealth

/** Rules in place of Argo CD's. undefined: there is no rule for the kind; no health: its rule gives no verdict. */
export type OwnRules = (object: KubernetesObject) => { readonly health: ArgoHealth | undefined } | undefined

export const healthy = (text = ''): ArgoHealth => ({ status: 'Healthy', text })
export const suspended = (text = ''): ArgoHealth => ({ status: 'Suspended', text })
export const progressing = (text = ''): ArgoHealth => ({ status: 'Progressing', text })
export const degraded = (text = ''): ArgoHealth => ({ status: 'Degraded', text })
export const unknown = (text = ''): ArgoHealth => ({ status: 'Unknown', text })
