import { isDeepStrictEqual } from 'node:util'
import { field, type KubernetesObject } from '../../../../kubernetes/object.ts'
import { differencesOf, unsetFields } from '../drift/differences.ts'
import { entriesOf, type FieldSet, ownEntry, takenOver, without } from '../live/managed-fields.ts'
import { FieldReader, type ManagedPath, pathText } from '../live/managed-path.ts'
import { OwnedFields, pathsOf } from '../live/owned-fields.ts'
import type { ObjectTree } from '../manifests/manifest.ts'
import { type FieldChange, isMark } from './field-change.ts'

export interface ComparedChange {
  /** manifest in the cluster; undefined: none, or it is not known */
  readonly base: ObjectTree | undefined
  readonly next: ObjectTree
  /** answer to the dry-run apply of `next` */
  readonly dry: KubernetesObject
  readonly live: KubernetesObject
  /** field manager of the source */
  readonly manager: string
}

/**
 * Returns the fields of a live object that the change sets, changes or removes. Values that Git has as before are none of
 * them, whatever the cluster has, nor are defaults and fields of others.
 */
export function clusterChanges({ base, next, dry, live, manager }: ComparedChange): FieldChange[] {
  const own = { dry: ownEntry(entriesOf(dry), manager), live: ownEntry(entriesOf(live), manager) }
  const [ofBase, ofNext] = [new FieldReader(), new FieldReader()]
  const isOfChange = (path: ManagedPath) =>
    base === undefined || !isDeepStrictEqual(gitValue(ofBase, base, path), gitValue(ofNext, next, path))
  const set = differencesOf({ dry, live }, own.dry?.fieldsV1 ?? {}).map(
    ({ path, kind, before, after, isOfKeys }): FieldChange => ({
      path,
      kind: kind === 'reordered' ? kind : after === undefined ? 'added' : 'changed',
      before: after,
      after: isOfKeys ? before : (ofNext.at(next, path) ?? before),
    }),
  )
  const ownReader = new OwnPart(own.live?.fieldsV1 ?? {})
  const removed = unsetFields({ dry, live }, own).map(
    ({ path, before, after }): FieldChange => ({
      path,
      kind: before === undefined ? 'missing' : 'changed',
      before: ownReader.of(after, path),
      after: before,
    }),
  )
  return [...set, ...removed].filter(({ path }) => !isMark(path) && isOfChange(path))
}

/** Returns Git's value, also null: the API server may store another one in its place. */
function gitValue(reader: FieldReader, object: ObjectTree, path: ManagedPath): unknown {
  const last = path.at(-1)
  if (!last?.startsWith('f:')) return reader.at(object, path)
  return field(reader.at(object, path.slice(0, -1)), last.slice(2))
}

/**
 * Returns the fields of earlier managers that the source takes over and does not set: its apply removes them.
 *
 * @param from - these managers
 */
export function takenFields(
  { dry, live, manager }: Pick<ComparedChange, 'dry' | 'live' | 'manager'>,
  from: readonly string[],
): FieldChange[] {
  const entries = entriesOf(live)
  const taken = takenOver(entries, { manager, from: new Set(from) })
  const all = taken && ownEntry(taken, manager)?.fieldsV1
  if (!all) return []
  const wanted = ownEntry(entriesOf(dry), manager)?.fieldsV1 ?? {}
  const staying = new OwnedFields([...taken.filter((entry) => entries.includes(entry)), { fieldsV1: wanted }])
  const [reader, part] = [new FieldReader(), new OwnPart(all)]
  const found: FieldChange[] = []
  for (const path of pathsOf(without(all, wanted))) {
    const around = found.at(-1)?.path // a field comes before the fields in it
    if (around?.every((element, level) => element === path[level])) continue
    if (path[0] === 'f:status' || isMark(path) || staying.owners(path).length > 0) continue
    const value = reader.at(live, path)
    if (value === undefined) continue
    found.push({ path, kind: 'missing', before: part.of(value, path), after: undefined })
  }
  return found
}

/**
 * Returns the changes of an object whose earlier manifest is not known, without fields that others have changed. If
 * nothing else differs, Git's change is in these fields, and they stay: the manifest is not the one that was applied.
 *
 * @param drifted - paths of these fields, as texts
 */
export function withoutDrift(changes: readonly FieldChange[], drifted: ReadonlySet<string>): readonly FieldChange[] {
  const others = changes.filter(({ path }) => !drifted.has(pathText(path)))
  return others.length > 0 ? others : changes
}

/** Returns changes by Git alone, each with its live value. */
export function addLiveValues(changes: readonly FieldChange[], live: KubernetesObject): FieldChange[] {
  const reader = new FieldReader()
  return changes.map((change) =>
    change.kind === 'reordered' ? change : { ...change, before: reader.at(live, change.path) },
  )
}

/** Reads the parts of values that a set of fields has: without defaults, and without fields of others. */
class OwnPart {
  readonly #fields: FieldSet
  readonly #reader = new FieldReader()

  constructor(fields: FieldSet) {
    this.#fields = fields
  }

  of(value: unknown, path: ManagedPath): unknown {
    return this.#part(
      value,
      path.reduce<FieldSet>((fields, element) => fields[element] ?? {}, this.#fields),
    )
  }

  #part(value: unknown, fields: FieldSet): unknown {
    const inner = Object.entries(fields).filter(([element]) => element !== '.')
    if (inner.length === 0 || typeof value !== 'object' || value === null) return value
    if (!Array.isArray(value)) {
      const parts = inner.flatMap(([element, one]) =>
        this.#reader.children(value, element).map((child) => [element.slice(2), this.#part(child, one)] as const),
      )
      return Object.fromEntries(parts)
    }
    const places = inner.flatMap(([element, one]) =>
      this.#reader.places(value, element).map((place) => ({ place, part: this.#part(value[place], one) })),
    )
    return places.sort((one, other) => one.place - other.place).map(({ part }) => part)
  }
}
