import { hash } from 'node:crypto'

/**
 * Digest of a source in the configuration, with unknown keys. kas and agentk of any versions compute the same one.
 *
 * @param tree - parsed JSON
 */
export function sourceDigest(tree: unknown): string {
  return hash('sha256', JSON.stringify(tree)).slice(0, 16)
}
