import { textAt } from '../../../../kubernetes/object.ts'
import type { FieldSet, ManagedEntry } from './managed-fields.ts'
import { type ManagedPath, maxPathDepth } from './managed-path.ts'

/** Field that some entries own, or in which they own fields. */
interface OwnedField {
  /** entries that own it, or a field in it */
  readonly entries: ManagedEntry[]
  /** entries that own the field itself */
  readonly itself: ManagedEntry[]
  /** entries that own it with everything in it */
  readonly whole: ManagedEntry[]
  readonly fields: Map<string, OwnedField>
}

const newField = (): OwnedField => ({ entries: [], itself: [], whole: [], fields: new Map() })

/** Owners of all fields of one object. It reads each entry once, and each path after that at the cost of its length. */
export class OwnedFields {
  readonly #root = newField()

  constructor(entries: Iterable<ManagedEntry>) {
    for (const entry of entries) add(this.#root, entry, entry.fieldsV1, 0)
  }

  /** Returns the entries that own the field, a field in it, or a field around it with everything in it. */
  owners(path: ManagedPath): readonly ManagedEntry[] {
    const { around, at } = this.#find(path)
    return [...around, ...(at?.entries ?? [])]
  }

  /** Returns the entries that own the field with everything in it, as they own a list without keys. */
  ownersOfWhole(path: ManagedPath): readonly ManagedEntry[] {
    const { around, at } = this.#find(path)
    return [...around, ...(at?.whole ?? [])]
  }

  /**
   * Returns the paths that only entries of `adders` own, outside of metadata and status. A path leads to the outermost
   * field that they own themselves: to the item that they added, and not to its fields. Entries of applies that have
   * changed nothing (`onlyAgrees`) add no path of their own.
   */
  onlyOf(adders: ReadonlySet<ManagedEntry>): ManagedPath[] {
    const found: ManagedPath[] = []
    const visit = (of: OwnedField, path: ManagedPath) => {
      for (const [element, inner] of of.fields) {
        if (isOutside(path, element) || !inner.entries.some((entry) => adders.has(entry))) continue
        const isTheirs = inner.entries.every((entry) => adders.has(entry))
        if (isTheirs && inner.itself.some((entry) => !onlyAgrees(entry))) found.push([...path, element])
        else if (inner.whole.every((entry) => adders.has(entry))) visit(inner, [...path, element])
      }
    }
    visit(this.#root, [])
    return found
  }

  #find(path: ManagedPath): { readonly around: readonly ManagedEntry[]; readonly at: OwnedField | undefined } {
    const around: ManagedEntry[] = []
    let at: OwnedField | undefined = this.#root
    for (const [level, element] of path.entries()) {
      if (level > 0 && at) around.push(...at.whole)
      at = at?.fields.get(element)
    }
    return { around, at }
  }
}

function add(of: OwnedField, entry: ManagedEntry, fields: FieldSet, level: number): void {
  for (const [element, found] of Object.entries(fields)) {
    if (element === '.') continue
    const inner: FieldSet = typeof found === 'object' && found !== null ? found : {} // an entry may be forged
    const known = of.fields.get(element) ?? newField()
    of.fields.set(element, known)
    known.entries.push(entry)
    const isWhole = Object.keys(inner).length === 0 || level + 1 >= maxPathDepth
    if (isWhole) known.whole.push(entry)
    if (isWhole || Object.hasOwn(inner, '.')) known.itself.push(entry)
    if (!isWhole) add(known, entry, inner, level + 1)
  }
}

/** True for metadata of the object and of Pods, and for the status: additions there are not reported. */
export function isOutside(path: ManagedPath, element: string): boolean {
  if (path.length === 0) return element === 'f:metadata' || element === 'f:status'
  return element === 'f:metadata' && templates.has(path.at(-1) ?? '')
}

/** Fields with the metadata of objects that a workload makes. */
const templates: ReadonlySet<string> = new Set(['f:template', 'f:jobTemplate'])

/**
 * Returns the entries of others. It leaves out the Apply entry of the source's manager. An entry of the status is
 * without the status and the time, which controllers write all the time.
 */
export function entriesOfOthers(entries: readonly ManagedEntry[], manager: string): readonly ManagedEntry[] {
  return entries.flatMap((entry) => {
    if (isOwn(entry, manager) && entry.operation === 'Apply') return []
    if (textAt(entry, 'subresource') !== 'status') return [entry]
    const { 'f:status': _, ...fieldsV1 } = entry.fieldsV1
    return Object.keys(fieldsV1).length === 0 ? [] : [{ ...entry, time: '', fieldsV1 }]
  })
}

/** True for an entry of an apply that has changed nothing but the owners: the API server writes no time in it. */
export function onlyAgrees(entry: ManagedEntry): boolean {
  return entry.operation === 'Apply' && textAt(entry, 'time') === ''
}

/** True for an entry of the manager about the object itself. */
export function isOwn(entry: ManagedEntry, manager: string): boolean {
  return entry.manager === manager && textAt(entry, 'subresource') === ''
}

/** Returns the paths of all fields that a set names. */
export function pathsOf(fields: FieldSet, around: ManagedPath = []): ManagedPath[] {
  const inner = Object.entries(fields).filter(([element]) => element !== '.')
  const isItself = around.length > 0 && (inner.length < Object.keys(fields).length || inner.length === 0)
  const itself = isItself ? [around] : []
  if (around.length >= maxPathDepth) return [around]
  return [...itself, ...inner.flatMap(([element, of]) => pathsOf(of, [...around, element]))]
}
