import { maxNamed, objectsNamedIn } from './named-objects.ts'

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
  readonly reason?: string
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
  const ofProblem = objectsNamedIn(problemOf(row)).map(subjectOf)
  const all = [...named.flatMap((key) => [...subjectsOf(key)]), ...keysOf(row).map(subjectOf), ...ofProblem]
  for (const subject of all) if (subjects.size < maxSubjects) subjects.set(subjectText(subject), subject)
}

/** Returns the row without names of objects that its reader may not get. `withheld` counts those. */
export function rowFor<Row extends object>(row: Row, { allowed }: SeenNames): Row {
  const mayName = (key: NamedKey | undefined) => !key || allowed.has(subjectText(subjectOf(key)))
  const withheld = [
    ...entriesOf(row).flatMap(({ key }) => (key && !mayName(key) ? [key] : [])),
    ...keysOf(row).filter((key) => !mayName(key)),
  ]
  const culprits = entriesOf(row).flatMap(({ culprit }) => (culprit && !mayName(culprit) ? [culprit] : []))
  const namesWithheld = namesIn([...withheld, ...culprits])
  const entries = entryLists.map((list) => {
    const shown = listOf<NamedEntry>(row, list).filter(({ key }) => mayName(key))
    return [list, shown.map((entry) => shownEntry(entry, allowed, namesWithheld))] as const
  })
  const keys = keyLists.map((list) => [list, listOf<NamedKey>(row, list).filter(mayName)] as const)
  const lists = [...entries, ...keys].filter(([list]) => list in row)
  const namesOthers = (text: string) => {
    const objects = objectsNamedIn(text) // they may be in no list
    return objects.length > maxNamed || objects.some((one) => !allowed.has(subjectText(subjectOf(one))))
  }
  const problem = problemFor(row, (text) => namesWithheld(text) || namesOthers(text))
  const named = { ...row, ...Object.fromEntries(lists), ...problem }
  const objects = new Set(
    withheld.map(({ group, kind, namespace, name }) => JSON.stringify([group, kind, namespace, name])),
  )
  return objects.size > 0 ? { ...named, withheld: objects.size } : named
}

const withheldText = 'its text names objects that you may not get'

/** Replaces a problem that names an object which the reader may not get. */
function problemFor(row: object, isNamedIn: (text: string) => boolean): { readonly problem?: string } {
  return isNamedIn(problemOf(row)) ? { problem: withheldText } : {}
}

function problemOf(row: object): string {
  const { problem = '' } = row as { readonly problem?: string }
  return problem
}

/**
 * Removes the text of a namespace or a definition, which names the objects that go with it. Removes the cause of bad
 * health if the reader may not get the object that is to blame. Replaces a text that names an object which the reader may
 * not get: an object that waits names the one for which it does.
 */
function shownEntry(entry: NamedEntry, allowed: ReadonlySet<string>, isNamedIn: (text: string) => boolean): NamedEntry {
  const { culprit, ...rest } = entry
  if (culprit && !allowed.has(subjectText(subjectOf(culprit)))) return { ...rest, text: '', reason: '' }
  const all = entry.key && subjectOfDependents(entry.key)
  if (all && !allowed.has(subjectText(all))) return { ...entry, text: '' }
  return isNamedIn(entry.text ?? '') ? { ...entry, text: withheldText } : entry
}

/** Characters between the names in a text. Names of most kinds have none of them. */
const betweenNames = /[^A-Za-z0-9._:-]+/
/** Signs after a name that end a part of a sentence. */
const afterName = /[.:]+$/

/** Returns a function that is true for a text that names one of these objects, in time linear in the text. */
function namesIn(keys: readonly NamedKey[]): (text: string) => boolean {
  const names = new Set(keys.map(({ name }) => name).filter((name) => name !== ''))
  const unusual = [...names].filter((name) => betweenNames.test(name) || afterName.test(name))
  return (text) => {
    if (names.size === 0 || text === '') return false
    const words = text.split(betweenNames)
    if (words.some((word) => names.has(word) || names.has(word.replace(afterName, '')))) return true
    return unusual.some((name) => text.includes(name))
  }
}

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
