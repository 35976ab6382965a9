import { isKasExtraKey, isKasName, kasExtraPrefix, kasNamePrefix } from '../../lib/impersonated-names.ts'
import type { CiAccessTree } from './agent-config-schema.ts'

/** A name in `access_as.impersonate` that only kas may give. */
export interface KasName {
  /** key below the entry: `access_as.impersonate.groups[1]` */
  readonly key: string
  /** the name, and the reason why the entry grants nothing */
  readonly reason: string
}

/** Characters of a name that a text shows. */
const maxShownCharacters = 100

/** @returns undefined: the entry has no such name */
export function firstKasName({ access_as: accessAs }: Pick<CiAccessTree, 'access_as'>): KasName | undefined {
  const { username = '', groups = [], extra = [] } = accessAs?.impersonate ?? {}
  const at = 'access_as.impersonate'
  if (isKasName(username)) return kasName(`${at}.username`, username, kasNamePrefix)
  const group = groups.findIndex(isKasName)
  if (group >= 0) return kasName(`${at}.groups[${group}]`, groups[group] as string, kasNamePrefix)
  const key = extra.findIndex((one) => isKasExtraKey(one.key))
  if (key >= 0) return kasName(`${at}.extra[${key}].key`, extra[key]?.key as string, kasExtraPrefix)
  return undefined
}

function kasName(key: string, found: string, prefix: string): KasName {
  const shown = JSON.stringify(found.slice(0, maxShownCharacters))
  return { key, reason: `found ${shown}, and kas alone may say what begins with ${prefix}; this entry lets nobody in` }
}
