import { hash } from 'node:crypto'

const length = 12

/** Returns a text that is equal for equal secrets, and reveals nothing else. */
export function fingerprint(secret: Uint8Array | string): string {
  return `sha256 of it begins with ${hash('sha256', secret, 'hex').slice(0, length)}`
}
