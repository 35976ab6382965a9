import { conditionsAt } from '../../../kubernetes/conditions.ts'
import { type KubernetesObject, kindOf, namespaceOf } from '../../../kubernetes/object.ts'
import { createdOf } from '../../../kubernetes/time.ts'
import type { Around } from './around.ts'
import { firstOf, newest } from './evidence.ts'
import { type Finding, type Found, found, minute, type Rank, ranks } from './finding.ts'
import { roomLast, roomSince } from './quotas.ts'
import { searched } from './text.ts'

/** Time in which the cause of a refusal may pass. ms */
const refusedMs = minute

/** Reasons by the words of a refusal; the first match counts. */
const reasons: readonly (readonly [reason: string, says: RegExp])[] = [
  ['WebhookFailed', /failed calling webhook/],
  ['AdmissionDenied', /denied (?:the )?request/],
  ['LimitsMissing', /failed quota: [^:]{1,253}: must specify /],
  ['QuotaExceeded', /exceeded quota:|failed quota:/],
  ['PodSecurityViolation', /violates PodSecurity/],
  ['ServiceAccountMissing', /serviceaccounts? "[^"]*" not found|error looking up service account/],
  ['LimitRangeViolation', /(?:maximum|minimum) \S+ usage per |limit to request ratio per /],
]

/** Returns the reason of the API server's refusal to make a Pod. */
function reasonOfRefusal(message: string): string {
  const text = searched(message)
  return reasons.find(([, says]) => says.test(text))?.[0] ?? 'FailedCreate'
}

/** True for a refusal, which stands whatever is found of the Pods that exist. */
export const isRefusal = (reason: string) => reason === 'FailedCreate' || reasons.some(([one]) => one === reason)

/** Judges a ReplicaSet by its condition, or its Deployment, which repeats it. */
export function refusedByCondition(object: KubernetesObject, around: Around, missing: number, rank: Rank) {
  if (missing <= 0) return undefined
  const condition = conditionsAt(object, around.now).find(
    ({ type, status }) => type === 'ReplicaFailure' && status === 'True',
  )
  if (!condition || condition.reason === 'FailedDelete') return undefined
  return refused(object, around, { message: condition.message, since: condition.since, missing, rank })
}

/** Finds a Deployment that may not make its next ReplicaSet: no ReplicaSet below it reports that. */
export function setRefused(object: KubernetesObject, around: Around, missing: number): Finding | undefined {
  const condition = conditionsAt(object, around.now).find(
    ({ type, status, reason }) => type === 'Progressing' && status === 'False' && reason === 'ReplicaSetCreateError',
  )
  if (!condition) return undefined
  const { message, since } = condition
  return refused(object, around, { message, since, missing: Math.max(missing, 1), rank: ranks.other })
}

/** Judges workloads that report refusals only in events: StatefulSets, DaemonSets, Jobs. */
export function refusedByEvents(object: KubernetesObject, around: Around, missing: number): Finding | undefined {
  if (missing <= 0) return undefined
  const all = around.eventsOf(object).filter(({ reason }) => reason === 'FailedCreate')
  const event = newest(all)
  if (!event || hasMadeSince(object, around, event.last)) return undefined
  const reason = reasonOfRefusal(event.message)
  const since = firstOf(all.filter(({ message }) => reasonOfRefusal(message) === reason))
  const { message, last } = event
  return refused(object, around, {
    message,
    since,
    last,
    missing,
    rank: ranks.other,
    needs: [['Event', namespaceOf(object)]],
  })
}

/** Finds a workload that has too many Pods, and may not delete them. @param extra - surplus Pods */
export function deletionRefused(
  object: KubernetesObject,
  around: Around,
  extra: number,
  rank: Rank,
): Finding | undefined {
  if (extra <= 0) return undefined
  const condition = conditionsAt(object, around.now).find(
    ({ type, status, reason }) => type === 'ReplicaFailure' && status === 'True' && reason === 'FailedDelete',
  )
  const event = newest(around.eventsOf(object).filter(({ reason }) => reason === 'FailedDelete'))
  const refusal = condition ?? event
  if (!refusal) return undefined
  const { message } = refusal
  const reason = reasonOfRefusal(message)
  return found(object, around.now, {
    reason: reason === 'FailedCreate' ? 'FailedDelete' : reason,
    text: quoted(message),
    rank,
    since: condition ? condition.since : event?.first,
    last: condition ? undefined : event?.last,
    grace: refusedMs,
    about: reason === 'WebhookFailed' ? webhookOf(message) : '',
    count: extra,
    needs: condition ? [] : [['Event', namespaceOf(object)]],
  })
}

/** Returns the webhook that could not be called; '': the message names none. */
export const webhookOf = (message: string) => /webhook "([^"]{1,253})"/.exec(searched(message))?.[1] ?? ''

/** True if a Pod, or a Job of a CronJob, was made since then, which is newer evidence. */
function hasMadeSince(object: KubernetesObject, around: Around, time: number): boolean {
  return around
    .childrenOf(object)
    .some((child) => made.has(kindOf(child)) && (createdOf(child, around.now) ?? 0) > time)
}

const made: ReadonlySet<string> = new Set(['Pod', 'batch/Job'])

interface Refusal extends Pick<Found, 'since' | 'last' | 'needs'> {
  readonly message: string
  readonly missing: number
  readonly rank: Rank
}

function refused(object: KubernetesObject, around: Around, { message, missing, ...rest }: Refusal): Finding {
  const reason = reasonOfRefusal(message)
  const room = reason === 'QuotaExceeded' ? roomSince(object, message, around) : undefined
  const last = reason === 'QuotaExceeded' && !room ? roomLast(object, around, { reason, since: rest.since }) : undefined
  return found(object, around.now, {
    ...rest,
    reason,
    text: room ? `there is room now, and it is tried again: ${quoted(message)}` : quoted(message),
    grace: room ? undefined : refusedMs,
    from: last?.from,
    needs: [...(rest.needs ?? []), ...(room ?? last?.needs ?? [])],
    about: reason === 'WebhookFailed' ? webhookOf(message) : '',
    count: missing,
  })
}

/** Prefixes of controllers and the API server, for which a row has no room. */
const before = [
  /^create (?:Pod|Claim) \S{1,253}(?: for Pod \S{1,253})? in StatefulSet \S{1,253} failed error: /i,
  /^failed to create PVC \S{1,253}: /,
  /^Failed to create new replica set "[^"]{1,253}": /,
  /^Error (?:creating(?: job)?|deleting): /,
  /^Delete Pod \S{1,253} in StatefulSet \S{1,253} failed error: /i,
  /^Internal error occurred: /,
  // the Pod never existed, and the next one has another name
  /^(?:pods|jobs\.batch|persistentvolumeclaims|replicasets\.apps) "[^"]{1,253}" is forbidden: /,
]
/** Matches the words between a webhook's name and the reason why it was not asked. */
const calling =
  /failed calling webhook "([^"]{1,253})": (?:failed to call webhook: )?(?:(?:Post|Get) "[^"]{0,2048}": )?/

/** Returns a refusal without the words that a row has already. */
function quoted(message: string): string {
  const bare = before.reduce((text, prefix) => text.replace(prefix, ''), searched(message))
  return bare.replace(calling, 'webhook $1: ')
}
