import { extraEntry, groupEntry, userEntry } from '../../lib/impersonated-names.ts'

/** Limits of the names that are kept of one request, because callers choose them. Characters: per name. */
export const askedNames = { count: 10, characters: 256 } as const

/**
 * Reads a name that a caller asks to act as: `user:NAME`, `group:NAME`, `serviceaccount:NAMESPACE:NAME`, `uid:UID`,
 * `extra:KEY`, else the header's name with its value.
 *
 * @param value - one byte per character
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
