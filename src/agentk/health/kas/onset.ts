import { type Finding, minute } from './finding.ts'

/** An object that is well for less than this is not well: the last finding goes on. ms */
export const goesOnMs = minute

/** Families of reasons that one fault shows in turn. */
const families: readonly (readonly string[])[] = [
  ['CrashLoopBackOff', 'OOMKilled', 'StartError', 'PostStartHookError', 'LivenessProbeFailed', 'StartupProbeFailed'],
  ['ImagePullDenied', 'ImageNotFound', 'RegistryUnavailable', 'ImagePullFailed'],
  [
    'ContainerCreating',
    'PodInitializing',
    'FailedMount',
    'FailedAttachVolume',
    'FailedMapVolume',
    'FailedCreatePodSandBox',
    'NetworkNotReady',
  ],
  [
    'QuotaExceeded',
    'LimitsMissing',
    'WebhookFailed',
    'AdmissionDenied',
    'ServiceAccountMissing',
    'PodSecurityViolation',
    'LimitRangeViolation',
    'FailedCreate',
  ],
  ['NoReadyEndpoints', 'SelectsNothing', 'WebhookServiceMissing'],
  ['NodeNotReady', 'NodeUnreachable'],
  ['LoadBalancerPending', 'SyncLoadBalancerFailed'],
  ['StorageClassMissing', 'ProvisioningFailed', 'FailedBinding', 'VolumeMismatch', 'NotBound'],
]
const familyByReason = new Map(families.flatMap((family) => family.map((reason) => [reason, family[0] as string])))

export const familyOf = (reason: string) => familyByReason.get(reason) ?? reason

/** Memory of one object's findings, for the time at which they began. Times are ms since 1970. */
export interface Onset {
  readonly family: string
  /** container, webhook or group that it is about */
  readonly about: string
  /** time at which it was first seen */
  readonly first: number
  /** true if its begin was seen */
  readonly isBegin: boolean
  /** the earliest time that objects and events report */
  readonly reported: number | undefined
  /** time since which it is well; undefined: it is not well */
  readonly well: number | undefined
}

/**
 * Returns what to remember after a check of an object.
 *
 * @param before - memory of the last check; undefined: there was none, or nothing was found
 * @param isLive - the object was followed before this check, so that a new finding begins now
 */
export function remember(
  before: Onset | undefined,
  found: Finding | undefined,
  { now, isLive }: { readonly now: number; readonly isLive: boolean },
): Onset | undefined {
  const hasEnded = before?.well !== undefined && now - before.well >= goesOnMs
  const known = hasEnded ? undefined : before
  if (!found || found.word === 'Healthy') return known && { ...known, well: known.well ?? now }
  const [family, { about, since }] = [familyOf(found.reason), found]
  if (!known || known.family !== family || known.about !== about) {
    return { family, about, first: found.seen ?? now, isBegin: isLive, reported: since, well: undefined }
  }
  const reported =
    since === undefined || known.reported === undefined ? (known.reported ?? since) : Math.min(known.reported, since)
  return { ...known, first: Math.min(known.first, found.seen ?? known.first), reported, well: undefined }
}

/**
 * Returns the first known begin: reported by objects or events, seen by agentk, or of the failure that it explains.
 * Without one it is at least as old as the first sight.
 *
 * @param explained - begin of the failure that it explains; undefined: none, or not known
 */
export function sinceBy(
  { reported, isBegin, first }: Onset,
  explained?: number,
): { readonly since: number } | { readonly atLeast: number } {
  const since = reported ?? (isBegin ? first : explained)
  return since === undefined ? { atLeast: first } : { since }
}
