import { conditionStatus, conditionsOf } from '../../../../kubernetes/conditions.ts'
import type { ObjectKey } from '../../../../kubernetes/key.ts'
import { builtIn, kindKey } from '../../../../kubernetes/kind.ts'
import { type KubernetesObject, kindOf, textAt } from '../../../../kubernetes/object.ts'
import { objectPath } from '../../../../kubernetes/path.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { Deadline } from '../../../../lib/deadline.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { kstatus } from '../../../health/kstatus/kstatus.ts'
import type { Kstatus } from '../../../health/kstatus/status.ts'
import type { ClusterKind } from '../live/cluster-kinds.ts'
import type { ObjectWaits } from '../live/object-waits.ts'

/** Verdict for dependents of an object: go on; wait, for a reason; or never, for a reason. */
export type GateVerdict = { readonly kind: 'open' } | { readonly kind: 'waits' | 'fails'; readonly text: string }

export interface HealthGateComponents {
  readonly waits: ObjectWaits
  /** acts as agentk itself, which may read StorageClasses */
  readonly lane: ApiLane
  readonly clock: Clock
}

/** Kinds whose objects are healthy as soon as they exist. */
const stateless: ReadonlySet<string> = new Set([
  'ConfigMap',
  'LimitRange',
  'Namespace',
  'ResourceQuota',
  'Secret',
  'ServiceAccount',
  'networking.k8s.io/NetworkPolicy',
  'rbac.authorization.k8s.io/ClusterRole',
  'rbac.authorization.k8s.io/ClusterRoleBinding',
  'rbac.authorization.k8s.io/Role',
  'rbac.authorization.k8s.io/RoleBinding',
  'scheduling.k8s.io/PriorityClass',
  'storage.k8s.io/StorageClass',
])

const open: GateVerdict = { kind: 'open' }

/**
 * Waits until an object is healthy, for the objects that depend on it.
 *
 * @param applied - as the API server has answered
 * @returns the reason to leave its dependents; undefined: they may go on. @throws the signal's reason
 */
export async function passGate(
  { waits, lane, clock }: HealthGateComponents,
  { kind, key, applied }: { readonly kind: ClusterKind; readonly key: ObjectKey; readonly applied: KubernetesObject },
  /** limit for one object. ms */
  { timeoutMs }: { readonly timeoutMs: number },
  signal: AbortSignal,
): Promise<string | undefined> {
  if (gateVerdict(applied, clock.now()).kind === 'open') return undefined
  if (await waitsForConsumer(applied, lane, signal)) return undefined
  let last = 'not known'
  const read = (object: KubernetesObject | undefined): { reason?: string } | undefined => {
    if (!object) return { reason: 'it has been deleted' }
    const verdict = gateVerdict(object, clock.now())
    if (verdict.kind === 'open') return {}
    last = verdict.text
    return verdict.kind === 'fails' ? { reason: verdict.text } : undefined
  }
  const deadline = new Deadline({ ms: timeoutMs, clock, signals: [signal] })
  try {
    return (await waits.until(kind, key, read, deadline.signal)).reason
  } catch (error) {
    if (signal.aborted || !deadline.isPast) throw error
    return `not healthy after ${Math.round(timeoutMs / 1000)} s: ${last}`
  } finally {
    deadline.end()
  }
}

/** True for a claim that is bound only when a Pod mounts it. A class that cannot be read blocks nothing. */
async function waitsForConsumer(object: KubernetesObject, lane: ApiLane, signal: AbortSignal): Promise<boolean> {
  const name = kindOf(object) === 'PersistentVolumeClaim' ? textAt(object, 'spec.storageClassName') : ''
  if (name === '') return false
  const { status, body } = await lane.json('GET', objectPath(builtIn.storageClasses, { name }), undefined, signal)
  return status !== 200 || textAt(body, 'volumeBindingMode') === 'WaitForFirstConsumer'
}

/** True if objects of the kind are healthy as soon as they exist. */
export function isStateless({ group, kind }: Pick<ObjectKey, 'group' | 'kind'>): boolean {
  return stateless.has(kindKey(group, kind))
}

/** Judges an object by kstatus; a Job has to end. @param now - ms since 1970 */
export function gateVerdict(object: KubernetesObject, now: number): GateVerdict {
  const found = kstatus(object, now)
  const { status } = found
  const text = shownText(object, found)
  if (kindOf(object) === 'batch/Job') {
    const holds = (type: string) => conditionStatus(object, type) === 'True'
    if (holds('Failed')) return { kind: 'fails', text }
    return holds('Complete') || holds('Suspended') ? open : { kind: 'waits', text }
  }
  return status === 'Current' ? open : { kind: 'waits', text }
}

/** Conditions by which kstatus judges any kind: their messages are a controller's. */
const judged: ReadonlySet<string> = new Set(['Ready', 'Reconciling', 'Stalled'])
/** Form of a reason, as Kubernetes asks for it: a word of code. */
const reasonForm = /^[A-Za-z][A-Za-z0-9_,:]{0,99}$/

/**
 * Returns the text of a verdict without the message of a condition. Controllers name keys of Secrets there, and rows go
 * to callers who may get neither.
 */
function shownText(object: KubernetesObject, { reason, text }: Kstatus): string {
  const isSource = (type: string) => judged.has(type)
  const found = conditionsOf(object).find((one) => isSource(one.type) && one.message === text && one.reason === reason)
  if (!found) return text
  const code = reasonForm.test(reason) ? ` (${reason})` : ''
  return `${found.type} is ${found.status}${code}; kubectl describe shows the message, which may name keys of Secrets`
}
