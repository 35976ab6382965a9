import { hash } from 'node:crypto'

/**
 * Of a source as kas sends it in the configuration, known keys or not: kas and agentk of any versions get the same.
 *
 * @param tree - what JSON gives
 */
export function sourceDigest(tree: unknown): string {
  return hash('sha256', JSON.stringify(tree)).slice(0, 16)
}
