import type { ObjectKey } from '../../../../kubernetes/key.ts'
import { kindKey } from '../../../../kubernetes/kind.ts'

/** Kinds in the order of helm and Flux. Within a wave, the objects of a rank come after those of all lower ranks. */
const ranks: readonly (readonly string[])[] = [
  [
    'Namespace',
    'apiextensions.k8s.io/CustomResourceDefinition',
    'scheduling.k8s.io/PriorityClass',
    'node.k8s.io/RuntimeClass',
    'storage.k8s.io/StorageClass',
    'networking.k8s.io/IngressClass',
    'networking.k8s.io/NetworkPolicy',
    'ServiceAccount',
    'ResourceQuota',
    'LimitRange',
  ],
  ['rbac.authorization.k8s.io/ClusterRole', 'rbac.authorization.k8s.io/Role', 'Secret', 'ConfigMap'],
  [
    'rbac.authorization.k8s.io/ClusterRoleBinding',
    'rbac.authorization.k8s.io/RoleBinding',
    'PersistentVolume',
    'PersistentVolumeClaim',
    'Service',
  ],
]
const rankOf = new Map(ranks.flatMap((kinds, rank) => kinds.map((kind) => [kind, rank] as const)))

const admission = 'admissionregistration.k8s.io'
const policyKinds: ReadonlySet<string> = new Set([
  'ValidatingAdmissionPolicy',
  'ValidatingAdmissionPolicyBinding',
  'MutatingAdmissionPolicy',
  'MutatingAdmissionPolicyBinding',
])
const webhookKinds: ReadonlySet<string> = new Set(['ValidatingWebhookConfiguration', 'MutatingWebhookConfiguration'])
/** groups whose objects refuse others, by webhooks of their own */
const policyGroups: ReadonlySet<string> = new Set(['kyverno.io', 'policies.kyverno.io', 'constraints.gatekeeper.sh'])

/** Means with which an object can refuse others: a webhook, a policy, or the server of their kind. */
export type Refuser = 'webhook' | 'policy' | 'apiService'

/** @returns undefined: objects of the kind refuse nothing */
export function refuserOf({ group, kind }: Pick<ObjectKey, 'group' | 'kind'>): Refuser | undefined {
  if (group === admission && webhookKinds.has(kind)) return 'webhook'
  if ((group === admission && policyKinds.has(kind)) || policyGroups.has(group)) return 'policy'
  return group === 'apiregistration.k8s.io' && kind === 'APIService' ? 'apiService' : undefined
}

/** Returns the rank, from 0: kinds that others need come first, kinds that refuse others last. */
export function kindRank(key: Pick<ObjectKey, 'group' | 'kind'>): number {
  if (refuserOf(key) !== undefined) return ranks.length + 1
  return rankOf.get(kindKey(key.group, key.kind)) ?? ranks.length
}
