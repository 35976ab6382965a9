import { randomBytes } from 'node:crypto'
import { tokenHash } from '../../lib/token-hash.ts'

/** How tokens begin, so that a reader and a secret scanner know them. */
const tokenPrefixes = { agent: 'glagent-', user: 'kaspat-', job: 'kasci-' } as const

const tokenBytes = 36

/** A new token and what the directory keeps of it. */
export function newToken(
  kind: keyof typeof tokenPrefixes,
  expires?: string,
): { token: string; entry: { sha256: string; expires?: string } } {
  const token = tokenPrefixes[kind] + randomBytes(tokenBytes).toString('base64url')
  return { token, entry: { sha256: tokenHash(token), ...(expires === undefined ? {} : { expires }) } }
}
