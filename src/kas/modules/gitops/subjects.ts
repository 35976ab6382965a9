/** Names of objects in rows go to callers who may get them: by kind and namespace, as RBAC knows objects. */

/** Objects of one kind in one namespace. Group and kind `*`: of any kind. */
export interface Subject {
  readonly group: string
  readonly kind: string
  readonly namespace: string
}

/** Names that one caller sees. */
export interface SeenNames {
  /** texts of subjects whose objects the caller may get */
  readonly allowed: ReadonlySet<string>
  /** why it is not known; empty: it is */
  readonly problem: string
}

interface NamedKey extends Subject {
  readonly name: string
}

interface NamedEntry {
  readonly key?: NamedKey
  readonly text?: string
  /** of an unhealthy object: the one that is to blame */
  readonly culprit?: NamedKey
}

/** Lists of a row whose entries have a key, and lists of keys. */
const entryLists = ['trouble', 'leaving', 'kept', 'drifted', 'left_to_others', 'unhealthy'] as const
const keyLists = ['planned', 'orphan'] as const

/** Limit of subjects about which the agent is asked for one answer: it takes as many. */
const maxSubjects = 500

/** Adds the subjects of a row, up to a limit. @param subjects - by their texts */
export function addSubjects(row: object, subjects: Map<string, Subject>): void {
  const named = entriesOf(row).flatMap(({ key, culprit }) => [key ?? [], culprit ?? []].flat())
  const all = [...named.flatMap((key) => [...subjectsOf(key)]), ...keysOf(row).map(subjectOf)]
  for (const subject of all) if (subjects.size < maxSubjects) subjects.set(subjectText(subject), subject)
}

/** Returns the row without names of objects that its reader may not get. `withheld` counts those. */
export function rowFor<Row extends object>(row: Row, { allowed }: SeenNames): Row {
  const mayName = (key: NamedKey | undefined) => !key || allowed.has(subjectText(subjectOf(key)))
  const withheld = [
    ...entriesOf(row).flatMap(({ key }) => (key && !mayName(key) ? [key] : [])),
    ...keysOf(row).filter((key) => !mayName(key)),
  ]
  const entries = entryLists.map((list) => {
    const shown = listOf<NamedEntry>(row, list).filter(({ key }) => mayName(key))
    return [list, shown.map((entry) => shownEntry(entry, allowed))] as const
  })
  const keys = keyLists.map((list) => [list, listOf<NamedKey>(row, list).filter(mayName)] as const)
  const lists = [...entries, ...keys].filter(([list]) => list in row)
  const named = { ...row, ...Object.fromEntries(lists), ...problemFor(row, withheld) }
  const objects = new Set(
    withheld.map(({ group, kind, namespace, name }) => JSON.stringify([group, kind, namespace, name])),
  )
  return objects.size > 0 ? { ...named, withheld: objects.size } : named
}

/** Replaces a problem that names an object which the reader may not get. */
function problemFor(row: object, withheld: readonly NamedKey[]): { readonly problem?: string } {
  const { problem } = row as { readonly problem?: string }
  const isNamed = withheld.some(({ name }) => name !== '' && problem?.includes(name))
  return isNamed ? { problem: 'its text names objects that you may not get' } : {}
}

/**
 * The text of a namespace or a definition names the objects that go with it, and the cause of bad health names another
 * object.
 */
function shownEntry(entry: NamedEntry, allowed: ReadonlySet<string>): NamedEntry {
  const { culprit, ...rest } = entry
  if (culprit && !allowed.has(subjectText(subjectOf(culprit)))) return { ...rest, text: '', ...noReason }
  const all = entry.key && subjectOfDependents(entry.key)
  return all && !allowed.has(subjectText(all)) ? { ...entry, text: '' } : entry
}

const noReason = { reason: '' }

function* subjectsOf(key: NamedKey): Iterable<Subject> {
  yield subjectOf(key)
  const dependents = subjectOfDependents(key)
  if (dependents) yield dependents
}

function subjectOfDependents({ group, kind, name }: NamedKey): Subject | undefined {
  if (group === '' && kind === 'Namespace') return { group: '*', kind: '*', namespace: name }
  const isDefinition = group === 'apiextensions.k8s.io' && kind === 'CustomResourceDefinition'
  return isDefinition ? { group: '*', kind: '*', namespace: '' } : undefined
}

function subjectOf({ group, kind, namespace }: Subject): Subject {
  return { group, kind, namespace }
}

function subjectText({ group, kind, namespace }: Subject): string {
  return JSON.stringify([group, kind, namespace])
}

function entriesOf(row: object): readonly NamedEntry[] {
  return entryLists.flatMap((list) => listOf<NamedEntry>(row, list))
}

function keysOf(row: object): readonly NamedKey[] {
  return keyLists.flatMap((list) => listOf<NamedKey>(row, list))
}

function listOf<Entry>(row: object, list: string): readonly Entry[] {
  return ((row as Record<string, unknown>)[list] ?? []) as readonly Entry[]
}
