import { asRecord } from './kube-object.ts'

/**
 * RFC 7396. For the kinds that can be written here, a strategic merge patch is the same, but for its directives
 * (`$patch`, `$setElementOrder/...`, `$retainKeys`), which are ignored.
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
