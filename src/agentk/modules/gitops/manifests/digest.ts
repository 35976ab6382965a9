import { createHash } from 'node:crypto'
import type { ObjectTree } from './manifest.ts'

/** SHA-256 of the object as JSON with sorted keys: hex. */
export function digestOf(object: ObjectTree): string {
  return createHash('sha256')
    .update(JSON.stringify(sorted(object)))
    .digest('hex')
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const keys = Object.keys(value).sort()
  return Object.fromEntries(keys.map((key) => [key, sorted((value as ObjectTree)[key])]))
}
