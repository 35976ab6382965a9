import { type Finding, minute } from './finding.ts'

/** Well for less than that is not well: what was found before goes on. ms */
export const goesOnMs = minute

/** Findings that one fault shows by turns. */
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

/** What is remembered of one object's findings, to say since when. Times are ms since 1970. */
export interface Onset {
  readonly family: string
  /** the container, webhook or group that it is about */
  readonly about: string
  /** when it was seen first */
  readonly first: number
  /** whether it was seen to begin */
  readonly isBegin: boolean
  /** the earliest time that objects and events report */
  readonly reported: number | undefined
  /** since when it is well; undefined: it is not */
  readonly well: number | undefined
}

/**
 * What is to be remembered after a check of an object.
 *
 * @param before - after the check before; undefined: there was none, or nothing was found
 * @param isLive - the object was followed before this check: what begins now has begun now
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
 * The first that is known: the time that objects or events say, that at which it was seen to begin, that of what it
 * explains; else at least since it was seen first.
 *
 * @param explained - since when that fails which it explains; undefined: nothing, or not known
 */
export function sinceBy(
  { reported, isBegin, first }: Onset,
  explained?: number,
): { readonly since: number } | { readonly atLeast: number } {
  const since = reported ?? (isBegin ? first : explained)
  return since === undefined ? { atLeast: first } : { since }
}
