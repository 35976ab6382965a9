import { entryAt, type KubernetesObject } from '../object.ts'
import { type Around, isMissing } from './around.ts'
import type { Need } from './finding.ts'
import { namespaceOf } from './read.ts'
import { searched } from './text.ts'

const kind = 'ResourceQuota'
/** resources that one refusal names */
const maxResources = 20

/** The quota that the API server names in a refusal; undefined: none. */
export function quotaNameOf(refusal: string): string | undefined {
  return /(?:exceeded|failed) quota: ([a-z0-9][a-z0-9.-]{0,252})/.exec(searched(refusal))?.[1]
}

/**
 * Whether what was refused would be taken now: whoever was refused waits before he tries again, up to a quarter of an hour.
 *
 * @param object - which was refused
 * @returns what was read for it; undefined: there is no room, or nobody knows
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

/** @param pair - `pods=1` */
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

/** As Kubernetes writes an amount: `3`, `500m`, `1Gi`, `1e3`. */
function quantityOf(text: string): number | undefined {
  const [, number = '', suffix = ''] =
    /^(\d{1,30}(?:\.\d{1,30})?(?:e\d{1,2})?)([a-zA-Z]{0,2})$/.exec(text.slice(0, 80)) ?? []
  const scale = suffixes[suffix]
  return number === '' || scale === undefined ? undefined : Number(number) * scale
}
