import { extraEntry, groupEntry, userEntry } from '../../lib/impersonated-names.ts'

/** Kept of one request: a caller chooses names and their number. Characters are of one name. */
export const askedNames = { count: 10, characters: 256 } as const

/** Whether the header may say whom a request acts as, in any spelling. Some servers and proxies read `_` as `-`. */
export function isImpersonationHeader(name: string): boolean {
  return /^impersonate[-_]/i.test(name)
}

/**
 * A name that a caller asks to act as: `user:NAME`, `group:NAME`, `serviceaccount:NAMESPACE:NAME`, `uid:UID`, `extra:KEY`,
 * else the header's name with its value.
 *
 * @param value - each character a byte
 */
export function askedName(header: string, value: string): string {
  const name = header.toLowerCase()
  const text = Buffer.from(value, 'latin1').toString()
  if (name === 'impersonate-user') return userEntry(text)
  if (name === 'impersonate-group') return groupEntry(text)
  if (name === 'impersonate-uid') return `uid:${text}`
  const [, key] = /^impersonate-extra-(.+)$/.exec(name) ?? []
  return key === undefined ? `${name}:${text}` : extraEntry(key)
}
