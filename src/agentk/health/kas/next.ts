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

/** limit of the characters of a command */
const maxNext = 200

/** Reasons of containers that have ended: their last output is in the log of the container before (`--previous`). */
const crashes: ReadonlySet<string> = new Set([
  'CrashLoopBackOff',
  'OOMKilled',
  'PostStartHookError',
  'LivenessProbeFailed',
  'StartupProbeFailed',
])
/** Reasons of Pods that have ended for good. */
const ends: ReadonlySet<string> = new Set(['NonZeroExit', 'Failed', 'Evicted'])
const foundations: ReadonlySet<string> = new Set(['Node', 'apiregistration.k8s.io/APIService', ...webhookKinds])

type Shown = Pick<Cause, 'kind' | 'namespace' | 'name' | 'reason' | 'about'> & Partial<Pick<Cause, 'text'>>

/** Returns what to read next about a cause, as a command that only reads; '': there is none. */
export function nextOf(cause: Shown): string {
  const { kind, namespace, name, reason } = cause
  const words = commandOf(cause)
  const isAnywhere = namespace === '' || inNone.has(reason) || words === ofNodes || ofServer.has(words[1] ?? '')
  const within = reason === 'GatewayMissing' ? gatewayNamespaceOf(cause) : namespace
  const command = ['kubectl', ...(isAnywhere ? [] : ['-n', within]), ...words].join(' ')
  const areNamed = [kind, name, namespace || name, within || name].every(isNamed)
  return command.length <= maxNext && areNamed && reason !== '' ? command : ''
}

/** Returns the gateway's namespace: a route may name a gateway of another namespace. */
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

/** Commands that list what exists, for objects that are missing or have another name. */
const present: ReadonlyMap<string, readonly string[]> = new Map([
  ['StorageClassMissing', ['get', 'storageclasses']],
  ['IngressClassMissing', ['get', 'ingressclasses']],
  ['GatewayClassMissing', ['get', 'gatewayclasses']],
  ['GatewayMissing', ['get', 'gateways']],
  ['BackendMissing', ['get', 'services']],
  ['SelectsNothing', ['get', 'pods', '--show-labels']],
  ['WebhookFailed', ['get', 'validatingwebhookconfigurations,mutatingwebhookconfigurations']],
])
/** Reasons with one list, whatever the namespace is. */
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
/** Matches a message that does not name the taints. */
const namelessTaints = /\buntolerated taint\(s\)(?! \()/

/** Reads which object is missing from words of the kubelet or the API server: `secret "sink" not found`. */
function missingOf(text: string): readonly string[] | undefined {
  const [, kind = '', name = ''] = /\b(secret|configmap|serviceaccount) "([^"]*)" not found/.exec(text) ?? []
  return isNamed(name) ? ['get', kind, name] : undefined
}

/** Reads which object lacks a key: `couldn't find key password in Secret shop/db`. No value of a Secret is shown. */
function withoutKeyOf(text: string): readonly string[] | undefined {
  const [, kind = '', name = ''] = /\bkey \S+ in (Secret|ConfigMap) [^\s/]+\/(\S+)/.exec(text) ?? []
  return isNamed(name) ? ['describe', kind.toLowerCase(), name] : undefined
}

/** Kubernetes' own finalizers of claims wait for Pods, which a description names. */
const protections = /^waits for finalizers: kubernetes\.io\/pvc?-protection(?:;|$)/

/** Lists the controllers that have written the object: one of them set the finalizer and does not remove it. */
function ofDeletion(kind: string, name: string, text: string): readonly string[] {
  if (protections.test(text)) return ['describe', resourceOf(kind), name]
  return ['get', resourceOf(kind), name, '-o', 'jsonpath={.metadata.managedFields[*].manager}']
}

/** Matches a missing object in words of the API server: `clusterissuer.cert-manager.io "prd" not found`. */
const absent = /\b([a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,8}) "[^"]*" not found/

/** Lists the existing objects of a kind, if one is missing or has another name. */
function othersOf(text: string): readonly string[] | undefined {
  const resource = absent.exec(text)?.[1]
  return resource !== undefined && isNamed(resource) ? ['get', resource] : undefined
}

/** Words of commands without a namespace. */
const ofServer: ReadonlySet<string> = new Set(['--raw', 'apiservices'])

/** Checks for an autoscaler if its metrics are served, and which. */
function ofMetric(group: string, text: string): readonly string[] | undefined {
  if (!metricGroups.has(group)) return undefined
  if (text.includes(notServed)) return ['get', 'apiservices']
  const pod = /\bmissing request for \S{1,253} in container \S{1,63} of Pod (\S{1,253})/.exec(text)?.[1]
  if (pod !== undefined && isNamed(pod)) return ['describe', 'pod', pod]
  if (group === 'metrics.k8s.io') return ['top', 'pods']
  return ['get', '--raw', versionPath({ group, version: 'v1beta1' })]
}

/** Reasons that the former version would not fix. */
const elsewhere: ReadonlySet<string> = new Set([
  'NodeNotReady',
  'NodeUnreachable',
  'TerminatingStuck',
  'RegistryUnavailable',
])

/** Reasons that a workload's own template or deadline causes, and no Pod. */
const ofTemplate: ReadonlySet<string> = new Set([
  'ProgressDeadlineExceeded',
  'LimitsMissing',
  'LimitRangeViolation',
  'PodSecurityViolation',
  'ServiceAccountMissing',
])

/** Reasons that may last until nobody waits any longer: a user who has waited long enough may go back. */
const slow: ReadonlySet<string> = new Set(['ReadinessProbeFailed'])

/**
 * True if a rollout may be undone: a Deployment has stopped between two versions, by Pods of its own or by its
 * template. For other kinds, Pods of the former version count too, and may be the ones that fail.
 */
export function isUndoable(
  workload: KubernetesObject,
  { kind, word, reason }: Pick<Cause, 'kind' | 'word' | 'reason'>,
) {
  const isOwn = kind === 'Pod' ? !elsewhere.has(reason) : ofTemplate.has(reason)
  const isStuck = word === 'Degraded' || (word === 'Progressing' && slow.has(reason))
  return kindOf(workload) === 'apps/Deployment' && isStuck && isOwn && isBetweenVersions(workload)
}

/** Describes the quota that the API server names. */
function ofQuota(text: string): readonly string[] {
  const quota = quotaNameOf(text)
  return quota === undefined ? ['describe', 'resourcequota'] : ['describe', 'resourcequota', quota]
}

/** Returns the kind as kubectl takes it: `deployment.apps`, `pod`. */
function resourceOf(key: string): string {
  const { group, kind } = parseKindKey(key)
  return kind.toLowerCase() + (group && `.${group}`)
}

/** True for a word that needs no quotes. */
const isNamed = (text: string) => /^[A-Za-z0-9][A-Za-z0-9./:_-]*$/.test(text)
