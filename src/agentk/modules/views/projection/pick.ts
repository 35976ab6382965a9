import type { KubernetesObject } from '../../../../kubernetes/object.ts'

/** Fields of an object that are read, each with its own fields; true: all of it. Lists are read entry by entry. */
export interface Picked {
  readonly [field: string]: Picked | true
}

/** entries of a list, and fields of a table that is read whole */
const maxEntries = 64
/** characters of a text that are kept, and so are searched */
const maxPickedText = 4096
/** tables in tables that are read whole */
const maxDepth = 6

/** @param paths - names, joined by dots; a name after a list is a field of its entries */
export function picked(...paths: readonly string[]): Picked {
  const root: Record<string, Picked | true> = {}
  for (const path of paths) {
    const names = path.split('.')
    let at: Record<string, Picked | true> = root
    for (const [i, name] of names.entries()) {
      if (i === names.length - 1) at[name] = true
      else {
        const known = at[name]
        const next: Record<string, Picked | true> = known === undefined || known === true ? {} : known
        at[name] = next
        at = next
      }
    }
  }
  return root
}

/** @returns a copy with these fields alone; an object stays an object, even if it is empty */
export function pick(object: KubernetesObject, fields: Picked): KubernetesObject {
  return copy(object, fields, 0) as KubernetesObject
}

function copy(value: unknown, fields: Picked | true, depth: number): unknown {
  if (typeof value === 'string') return fields === true ? cutText(value) : undefined
  if (typeof value !== 'object' || value === null) return fields === true ? value : undefined
  if (depth > maxDepth) return undefined // only values that are read whole are so deep
  if (Array.isArray(value))
    return value.slice(0, maxEntries).map((one) => copy(one, fields, fields === true ? depth + 1 : 0) ?? {})
  const found: Record<string, unknown> = {}
  const names = fields === true ? Object.keys(value).slice(0, maxEntries) : Object.keys(fields)
  for (const name of names) {
    if (!Object.hasOwn(value, name)) continue
    const part = copy(
      (value as Record<string, unknown>)[name],
      fields === true ? true : (fields[name] ?? true),
      fields === true ? depth + 1 : 0,
    )
    if (part !== undefined) found[name] = part
  }
  return found
}

const cutText = (text: string) => (text.length <= maxPickedText ? text : text.slice(0, maxPickedText))
