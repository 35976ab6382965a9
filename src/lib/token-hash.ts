import { hash, timingSafeEqual } from 'node:crypto'

/** Returns the form in which tokens are stored and compared: sha256 in lower-case hex. */
export function tokenHash(token: string): string {
  return hash('sha256', token, 'hex')
}

/** Compares two hashes of `tokenHash` in constant time. */
export function sameHash(one: string, other: string): boolean {
  const left = Buffer.from(one, 'hex')
  const right = Buffer.from(other, 'hex')
  return left.length === right.length && timingSafeEqual(left, right)
}
