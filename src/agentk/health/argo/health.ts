import type { KubernetesObject } from '../../../kubernetes/object.ts'

/** From best to worst, as Argo CD orders them. */
export const argoStatuses = ['Healthy', 'Suspended', 'Progressing', 'Missing', 'Degraded', 'Unknown'] as const
export type ArgoStatus = (typeof argoStatuses)[number]

export interface ArgoHealth {
  readonly status: ArgoStatus
  readonly text: string
}

/** What Argo CD says of an object of one kind. */
export type ArgoRule = (object: KubernetesObject) => ArgoHealth

/** Rules in place of Argo CD's: undefined for a kind without one; no health where there is one that says nothing. */
export type OwnRules = (object: KubernetesObject) => { readonly health: ArgoHealth | undefined } | undefined

export const healthy = (text = ''): ArgoHealth => ({ status: 'Healthy', text })
export const suspended = (text = ''): ArgoHealth => ({ status: 'Suspended', text })
export const progressing = (text = ''): ArgoHealth => ({ status: 'Progressing', text })
export const degraded = (text = ''): ArgoHealth => ({ status: 'Degraded', text })
export const unknown = (text = ''): ArgoHealth => ({ status: 'Unknown', text })
