import { entryAt, type KubernetesObject, kindOf, namespaceOf } from '../../../kubernetes/object.ts'
import { createdOf } from '../../../kubernetes/time.ts'
import { type Around, isMissing } from './around.ts'
import type { Finding, Need } from './finding.ts'
import { revisionOf } from './read.ts'
import { searched } from './text.ts'

const kind = 'ResourceQuota'
const deploymentKind = 'apps/Deployment'
const setKind = 'apps/ReplicaSet'
/** limit of the resources that are read from one refusal */
const maxResources = 20

/** Returns the quota that the API server names in a refusal; undefined: none. */
export function quotaNameOf(refusal: string): string | undefined {
  return /(?:exceeded|failed) quota: ([a-z0-9][a-z0-9.-]{0,252})/.exec(searched(refusal))?.[1]
}

/**
 * Finds out if a refused object would be accepted now. Its controller waits up to a quarter of an hour.
 *
 * @param object - which was refused
 * @returns needs of the answer; undefined: there is no room, or this is not known
 */
export function roomSince(object: KubernetesObject, refusal: string, around: Around): readonly Need[] | undefined {
  const name = quotaNameOf(refusal)
  const requested = /requested: (\S{1,2000}), used:/.exec(searched(refusal))?.[1]
  if (name === undefined || requested === undefined) return undefined
  const namespace = namespaceOf(object)
  const needs: readonly Need[] = [[kind, namespace]]
  const quota = around.find(kind, namespace, name)
  if (!quota) return isMissing(around, kind, namespace, name) ? needs : undefined
  const isRoom = requested.split(',', maxResources).every((pair) => fits(quota, pair))
  return isRoom ? needs : undefined
}

/**
 * Returns when a full quota last had room. A rollout takes the room of its old Pods, so that room comes and goes.
 *
 * @param reason - reason of the refusal
 * @param since - time of the first refusal, in ms since 1970
 * @returns the time, and the needs of the answer; undefined: no room since the refusal, as far as is known
 */
export function roomLast(
  object: KubernetesObject,
  around: Around,
  { reason, since }: { readonly reason: string; readonly since: number | undefined },
): { readonly from: number; readonly needs: readonly Need[] } | undefined {
  const seen = roomSeen(around.before(object), reason, around.now)
  const made = newestPod(object, around)
  const pods = made !== undefined && made > (since ?? 0) ? made : undefined
  if (seen === undefined && pods === undefined) return undefined
  const namespace = namespaceOf(object)
  const isAbove = kindOf(object) === deploymentKind
  const needs: Need[] = [
    ...(seen?.needs ?? []),
    ...(pods === undefined ? [] : [...(isAbove ? [[setKind, namespace] as const] : []), ['Pod', namespace] as const]),
  ]
  return { from: Math.max(seen?.from ?? 0, pods ?? 0), needs: needs.filter(isFirst) }
}

const isFirst = ([kind]: Need, i: number, all: readonly Need[]) => all.findIndex(([other]) => other === kind) === i

/** Reads the room from the last finding: the quota is full before the Pod that has filled it is known. */
function roomSeen(before: Finding | undefined, reason: string, now: number) {
  if (before?.reason !== reason || before.word !== 'Progressing') return undefined
  // a grace that begins at `now` would count from when the refusal was first seen
  const from = before.due === undefined ? now - 1 : before.from
  return from === undefined ? undefined : { from, needs: before.needs }
}

/** Returns when its newest Pod was made, for a Deployment that of its newest revision. ms since 1970 */
function newestPod(object: KubernetesObject, around: Around): number | undefined {
  const children = around.childrenOf(object)
  const pods =
    kindOf(object) === deploymentKind ? newestSet(children).flatMap((one) => around.childrenOf(one)) : children
  let newest: number | undefined
  for (const pod of pods) {
    const created = kindOf(pod) === 'Pod' ? createdOf(pod, around.now) : undefined
    if (created !== undefined && (newest === undefined || created > newest)) newest = created
  }
  return newest
}

function newestSet(children: readonly KubernetesObject[]): readonly KubernetesObject[] {
  const sets = children.filter((child) => kindOf(child) === setKind)
  const newest = Math.max(...sets.map(revisionOf))
  return sets.filter((one) => revisionOf(one) === newest)
}

/** @param pair - `pods=1`, for example */
function fits(quota: KubernetesObject, pair: string): boolean {
  const at = pair.lastIndexOf('=')
  const [resource, more] = [pair.slice(0, at), quantityOf(pair.slice(at + 1))]
  const hard = quantityOf(entryAt(quota, 'status.hard', resource))
  const used = quantityOf(entryAt(quota, 'status.used', resource))
  return more !== undefined && hard !== undefined && used !== undefined && used + more <= hard
}

const suffixes: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
}

/** Parses an amount in Kubernetes' form: `3`, `500m`, `1Gi`, `1e3`. @returns undefined: it is none */
export function quantityOf(text: string): number | undefined {
  const [, number = '', suffix = ''] =
    /^(\d{1,30}(?:\.\d{1,30})?(?:e\d{1,2})?)([a-zA-Z]{0,2})$/.exec(text.slice(0, 80)) ?? []
  const scale = suffixes[suffix]
  return number === '' || scale === undefined ? undefined : Number(number) * scale
}
