import { conditionsAt } from '../../../kubernetes/conditions.ts'
import { type KubernetesObject, kindOf, nameOf, textField } from '../../../kubernetes/object.ts'
import type { Around } from './around.ts'
import { horizontalPodAutoscaler } from './autoscalers.ts'
import { budget } from './budgets.ts'
import { claim } from './claims.ts'
import { cronJob } from './cron-jobs.ts'
import { customResourceDefinition, definitionKind, endingDefinition } from './definitions.ts'
import { deletionOf, namespace } from './deletion.ts'
import { type Finding, found, minute, type Need, ranks } from './finding.ts'
import { gateway, gatewayGroup } from './gateways.ts'
import { Hidden } from './hidden.ts'
import { ingress } from './ingresses.ts'
import { job } from './jobs.ts'
import { node } from './nodes.ts'
import { podFinding } from './pods/pod.ts'
import { service } from './services.ts'
import { signingRequest } from './signing-requests.ts'
import { attachment, volume } from './volumes.ts'
import { webhookConfiguration, webhookKinds } from './webhooks.ts'
import { daemonSet, deployment, replicaSet, statefulSet } from './workloads.ts'

type Rule = (object: KubernetesObject, around: Around) => Finding | undefined

/** Rules by `group/Kind`. */
const rules: ReadonlyMap<string, Rule> = new Map<string, Rule>([
  ['Pod', podFinding],
  ['apps/Deployment', deployment],
  ['apps/ReplicaSet', replicaSet],
  ['ReplicationController', replicaSet],
  ['apps/StatefulSet', statefulSet],
  ['apps/DaemonSet', daemonSet],
  ['batch/Job', job],
  ['batch/CronJob', cronJob],
  ['Node', node],
  ['PersistentVolumeClaim', claim],
  ['PersistentVolume', volume],
  ['storage.k8s.io/VolumeAttachment', attachment],
  ['certificates.k8s.io/CertificateSigningRequest', signingRequest],
  ['Service', service],
  ['policy/PodDisruptionBudget', budget],
  ['networking.k8s.io/Ingress', ingress],
  ['autoscaling/HorizontalPodAutoscaler', horizontalPodAutoscaler],
  ['apiregistration.k8s.io/APIService', apiService],
  [definitionKind, customResourceDefinition],
  ...webhookKinds.map((kind): [string, Rule] => [kind, webhookConfiguration]),
])

/** Rules for objects that are being deleted, by `group/Kind`. They read conditions. */
const deletionRules: ReadonlyMap<string, Rule> = new Map<string, Rule>([
  ['Namespace', namespace],
  [definitionKind, endingDefinition],
  ['storage.k8s.io/VolumeAttachment', attachment],
])

function ruleOf(kind: string): Rule | undefined {
  return rules.get(kind) ?? (kind.startsWith(gatewayGroup) ? gateway : undefined)
}

/** True if a rule here judges objects of the kind (`group/Kind`) that are not being deleted. */
export const isJudged = (kind: string) => ruleOf(kind) !== undefined

/** limit of findings, more than most objects need; after it nothing more is found */
const maxFindings = 16

/**
 * Finds out what is wrong with an object, by its own rule or its deletion. A caller sees the first finding whose needs
 * the caller may all list. The last one needs only the object. Empty: nothing is known to be wrong.
 */
export function findingsOf(object: KubernetesObject, around: Around): readonly Finding[] {
  const findings: Finding[] = []
  const hidden: Need[] = []
  let seen = around
  for (let finding = findingOf(object, seen); finding; finding = findingOf(object, seen)) {
    findings.push(finding)
    const least = finding.needs.at(-1)
    if (!least || findings.length === maxFindings) break
    hidden.push(least)
    seen = new Hidden(around, hidden)
  }
  return findings
}

function findingOf(object: KubernetesObject, around: Around): Finding | undefined {
  const kind = kindOf(object)
  if (textField(object.metadata, 'deletionTimestamp') === '') return ruleOf(kind)?.(object, around)
  return deletionRules.get(kind)?.(object, around) ?? deletionOf(object, around)
}

/** Time in which the server of a group may restart. ms */
const restartMs = minute

function apiService(object: KubernetesObject, { now }: Around): Finding | undefined {
  const available = conditionsAt(object, now).find(({ type, status }) => type === 'Available' && status === 'False')
  if (!available) return undefined
  const { reason, message, since } = available
  const text = `${nameOf(object)}: ${message || reason}`
  return found(object, now, { reason: reason || 'Available', text, rank: ranks.foundation, since, grace: restartMs })
}
