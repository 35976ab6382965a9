/**
 * Limit of nested maps and lists in an object that is compared, and in its FieldsV1. Code that calls itself for each
 * level would exhaust the stack. The API server takes 10,000 levels; a manifest has fewer than this.
 */
export const maxNestingDepth = 1000

/** True if maps and lists are nested in more levels than `maxNestingDepth`. */
export function isNestedTooDeeply(value: unknown): boolean {
  let level = [value]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maxNestingDepth) return true
    const next: unknown[] = []
    for (const one of level) {
      if (typeof one !== 'object' || one === null) continue
      for (const inner of Object.values(one)) if (typeof inner === 'object' && inner !== null) next.push(inner)
    }
    level = next
  }
  return false
}
