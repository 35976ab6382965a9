import { parseKindKey } from '../../../kubernetes/kind.ts'
import { type KubernetesObject, kindOf } from '../../../kubernetes/object.ts'
import { versionPath } from '../../../kubernetes/path.ts'
import { metricGroups, notServed } from './autoscalers.ts'
import { isBetweenVersions } from './counts.ts'
import { isNotReady } from './nodes.ts'
import { unreadSecretOf } from './pods/images.ts'
import { isOfInit } from './pods/readiness.ts'
import { quotaNameOf } from './quotas.ts'
import type { Cause } from './root-causes/choosing.ts'
import { webhookKinds } from './webhooks.ts'

/** characters of a command */
const maxNext = 200

/** Reasons of containers that have ended: what they said last stands in the log of the life before. */
const crashes: ReadonlySet<string> = new Set([
  'CrashLoopBackOff',
  'OOMKilled',
  'PostStartHookError',
  'LivenessProbeFailed',
  'StartupProbeFailed',
])
/** Reasons of Pods whose end is the last. */
const ends: ReadonlySet<string> = new Set(['NonZeroExit', 'Failed', 'Evicted'])
const foundations: ReadonlySet<string> = new Set(['Node', 'apiregistration.k8s.io/APIService', ...webhookKinds])

type Shown = Pick<Cause, 'kind' | 'namespace' | 'name' | 'reason' | 'about'> & Partial<Pick<Cause, 'text'>>

/** What to read next of a cause, as a command that only reads. */
export function nextOf(cause: Shown): string {
  const { kind, namespace, name, reason } = cause
  const words = commandOf(cause)
  const isAnywhere = namespace === '' || inNone.has(reason) || words === ofNodes || ofServer.has(words[1] ?? '')
  const within = reason === 'GatewayMissing' ? gatewayNamespaceOf(cause) : namespace
  const command = ['kubectl', ...(isAnywhere ? [] : ['-n', within]), ...words].join(' ')
  const areNamed = [kind, name, namespace || name, within || name].every(isNamed)
  return command.length <= maxNext && areNamed && reason !== '' ? command : ''
}

/** A route may name a gateway of another namespace. */
function gatewayNamespaceOf({ namespace, text = '' }: Shown): string {
  return /^gateway ([a-z0-9-]{1,63})\//.exec(text)?.[1] ?? namespace
}

function commandOf({ kind, name, reason, about, text = '' }: Shown): readonly string[] {
  if (reason === 'DeletionBlocked') return ofDeletion(kind, name, text)
  if (foundations.has(kind) || isNotReady(reason)) return ['describe', resourceOf(kind), name]
  if (kind === 'Pod') return ofPod(name, reason, about, text)
  if (reason === 'QuotaExceeded') return ofQuota(text)
  if (reason === 'ServiceAccountMissing') return missingOf(text) ?? ['get', 'serviceaccounts']
  return present.get(reason) ?? ofMetric(about, text) ?? othersOf(text) ?? ['describe', resourceOf(kind), name]
}

/** Of what is missing, or has another name: what there is. */
const present: ReadonlyMap<string, readonly string[]> = new Map([
  ['StorageClassMissing', ['get', 'storageclasses']],
  ['IngressClassMissing', ['get', 'ingressclasses']],
  ['GatewayClassMissing', ['get', 'gatewayclasses']],
  ['GatewayMissing', ['get', 'gateways']],
  ['BackendMissing', ['get', 'services']],
  ['SelectsNothing', ['get', 'pods', '--show-labels']],
  ['WebhookFailed', ['get', 'validatingwebhookconfigurations,mutatingwebhookconfigurations']],
])
/** Of these there is one list, whatever the namespace. */
const inNone: ReadonlySet<string> = new Set([
  'StorageClassMissing',
  'IngressClassMissing',
  'GatewayClassMissing',
  'NodeMissing',
  'WebhookFailed',
])

function ofPod(name: string, reason: string, container: string, text: string): readonly string[] {
  const secret = unreadSecretOf(text)
  if (secret !== undefined && isNamed(secret)) return ['get', 'secret', secret]
  if (reason === 'ImagePullDenied') return ['get', 'pod', name, '-o', 'jsonpath={.spec.imagePullSecrets}']
  if (reason === 'CreateContainerConfigError' || reason === 'FailedMount') {
    return missingOf(text) ?? withoutKeyOf(text) ?? ['describe', 'pod', name]
  }
  if (reason === 'NodeMissing') return ['get', 'nodes']
  if (reason === 'Unschedulable' && namelessTaints.test(text)) return ofNodes
  if (/ probe errored\b/.test(text)) return ['describe', 'pod', name]
  const of = isNamed(container) ? ['-c', container] : []
  if (crashes.has(reason)) return ['logs', name, ...of, '--previous']
  if (reason === 'ReadinessProbeFailed') return ['logs', name, ...of, '--since=5m']
  const isBegun = isOfInit(text) || / probe failed\b/.test(text)
  if (reason === 'Starting' && isBegun && of.length > 0) return ['logs', name, ...of]
  return ends.has(reason) && of.length > 0 ? ['logs', name, ...of] : ['describe', 'pod', name]
}

const ofNodes: readonly string[] = ['describe', 'nodes']
/** Nobody has named them. */
const namelessTaints = /\buntolerated taint\(s\)(?! \()/

/** What the kubelet, or the API server, says is not there: `secret "sink" not found`. */
function missingOf(text: string): readonly string[] | undefined {
  const [, kind = '', name = ''] = /\b(secret|configmap|serviceaccount) "([^"]*)" not found/.exec(text) ?? []
  return isNamed(name) ? ['get', kind, name] : undefined
}

/** What lacks a key: `couldn't find key password in Secret shop/db`. Of a Secret no value is shown. */
function withoutKeyOf(text: string): readonly string[] | undefined {
  const [, kind = '', name = ''] = /\bkey \S+ in (Secret|ConfigMap) [^\s/]+\/(\S+)/.exec(text) ?? []
  return isNamed(name) ? ['describe', kind.toLowerCase(), name] : undefined
}

/** Kubernetes' own finalizers of claims are for Pods, which a description names. */
const protections = /^waits for finalizers: kubernetes\.io\/pvc?-protection(?:;|$)/

/** Which controllers have written the object: one of them has set what it does not take away. */
function ofDeletion(kind: string, name: string, text: string): readonly string[] {
  if (protections.test(text)) return ['describe', resourceOf(kind), name]
  return ['get', resourceOf(kind), name, '-o', 'jsonpath={.metadata.managedFields[*].manager}']
}

/** What the API server says is not there, as it names it: `clusterissuer.cert-manager.io "prd" not found`. */
const absent = /\b([a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,8}) "[^"]*" not found/

/** Those that there are of a kind of which one is missing, or has another name. */
function othersOf(text: string): readonly string[] | undefined {
  const resource = absent.exec(text)?.[1]
  return resource !== undefined && isNamed(resource) ? ['get', resource] : undefined
}

/** These have no namespace. */
const ofServer: ReadonlySet<string> = new Set(['--raw', 'apiservices'])

/** Of an autoscaler: whether its metrics are served, and which. */
function ofMetric(group: string, text: string): readonly string[] | undefined {
  if (!metricGroups.has(group)) return undefined
  if (text.includes(notServed)) return ['get', 'apiservices']
  const pod = /\bmissing request for \S{1,253} in container \S{1,63} of Pod (\S{1,253})/.exec(text)?.[1]
  if (pod !== undefined && isNamed(pod)) return ['describe', 'pod', pod]
  if (group === 'metrics.k8s.io') return ['top', 'pods']
  return ['get', '--raw', versionPath({ group, version: 'v1beta1' })]
}

/** What the version before would not mend. */
const elsewhere: ReadonlySet<string> = new Set([
  'NodeNotReady',
  'NodeUnreachable',
  'TerminatingStuck',
  'RegistryUnavailable',
])

/** What a workload's own template or deadline is the reason of, where no Pod is. */
const ofTemplate: ReadonlySet<string> = new Set([
  'ProgressDeadlineExceeded',
  'LimitsMissing',
  'LimitRangeViolation',
  'PodSecurityViolation',
  'ServiceAccountMissing',
])

/** It may last long until nobody waits for it any more: who has waited long enough may go back. */
const slow: ReadonlySet<string> = new Set(['ReadinessProbeFailed'])

/**
 * Whether a workload has stopped between two versions by Pods of its own, or by its template, so that its rollout may be undone. Of others than
 * Deployments Pods of the version before count too, and may be what fails.
 */
export function isUndoable(
  workload: KubernetesObject,
  { kind, word, reason }: Pick<Cause, 'kind' | 'word' | 'reason'>,
) {
  const isOwn = kind === 'Pod' ? !elsewhere.has(reason) : ofTemplate.has(reason)
  const isStuck = word === 'Degraded' || (word === 'Progressing' && slow.has(reason))
  return kindOf(workload) === 'apps/Deployment' && isStuck && isOwn && isBetweenVersions(workload)
}

/** By the quota that the API server names. */
function ofQuota(text: string): readonly string[] {
  const quota = quotaNameOf(text)
  return quota === undefined ? ['describe', 'resourcequota'] : ['describe', 'resourcequota', quota]
}

/** As kubectl takes it: `deployment.apps`, `pod`. */
function resourceOf(key: string): string {
  const { group, kind } = parseKindKey(key)
  return kind.toLowerCase() + (group && `.${group}`)
}

/** A word that needs no quotes. */
const isNamed = (text: string) => /^[A-Za-z0-9][A-Za-z0-9./:_-]*$/.test(text)
