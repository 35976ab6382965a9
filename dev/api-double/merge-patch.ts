import { asRecord } from './kube-object.ts'

/**
 * RFC 7396. A strategic merge patch of the kinds that can be written here is the same, but for its directives
 * (`$patch`, `$setElementOrder/...`, `$retainKeys`), which are left out.
 */
export function mergePatch(target: unknown, patch: unknown): unknown {
  const changes = asRecord(patch)
  if (!changes) return patch
  const merged = new Map(Object.entries(asRecord(target) ?? {}))
  for (const [key, value] of Object.entries(changes)) {
    if (key.startsWith('$')) continue
    if (value === null) merged.delete(key)
    else merged.set(key, mergePatch(merged.get(key), value))
  }
  return Object.fromEntries(merged)
}
