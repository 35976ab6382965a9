import { maxObjects, type SourceBlock } from '../../../proto/gitops-json.ts'
import { isDefinition, isNamespace } from './apply/parents.ts'
import { keyText, type ObjectKey } from './manifests/object-key.ts'
import { outsideReach } from './manifests/scope.ts'

/** A source of the configuration. */
export interface SourceRow {
  readonly block: SourceBlock
  /** once its project is known */
  readonly id?: string
  /** undefined: it has not said so yet */
  readonly wants?: SourceWants
}

export interface SourceWants {
  /** empty: of none, it is what the source has made so far */
  readonly commit: string
  /** by `keyText` */
  readonly keys: ReadonlyMap<string, ObjectKey>
}

/** What one source is to know of the others of this agent. */
export interface OtherSources {
  /** one that has let go of the object */
  isHandedOver(owner: string, key: ObjectKey): boolean
  /** one that wants it */
  heir(key: ObjectKey): string | undefined
  /** of whom it is not known yet, of those of the same project at this commit. @returns why it stays until then */
  mayWant(key: ObjectKey, commit: string): string | undefined
  wanted(): Iterable<ObjectKey>
  /** for what the source would want: the agent's objects are scarce for those above their share alone */
  hasRoom(keys: ReadonlyMap<string, ObjectKey>): boolean
}

/** The sources of one agent, and what each of them wants. */
export class SourceTable {
  readonly #rows = new Map<object, SourceRow>()
  /** the configuration has none that cannot be read */
  isWhole = true

  set(source: object, row: SourceRow): void {
    this.#rows.set(source, row)
  }

  delete(source: object): void {
    this.#rows.delete(source)
  }

  get(source: object): SourceRow | undefined {
    return this.#rows.get(source)
  }

  /** @throws Error: two would apply against one another */
  claim(source: object, id: string): void {
    const row = this.#rows.get(source)
    if (this.#rowsBeside(source).some((other) => other.id === id))
      throw new Error(`gitops: the configuration has ${id} twice: names tell sources of one project apart`)
    if (row) this.#rows.set(source, { ...row, id })
  }

  /** @returns whether it is news */
  wants(source: object, wants: SourceWants): boolean {
    const row = this.#rows.get(source)
    if (!row || (row.wants && isSame(row.wants, wants))) return false
    this.#rows.set(source, { ...row, wants })
    return true
  }

  /** Whether another one goes by this id, or will perhaps once its project is known. */
  isBeside(source: object, id: string): boolean {
    return this.#rowsBeside(source).some((row) => mayBe(row, id))
  }

  /** Whether one goes by this id, will perhaps, or takes over what it has made. */
  has(id: string): boolean {
    return [...this.#rows.values()].some((row) => mayBe(row, id) || row.block.adopt?.includes(id))
  }

  others(source: object): OtherSources {
    const rows = () => this.#rowsBeside(source)
    return {
      isHandedOver: (owner, key) =>
        rows().some(({ id, wants }) => id === owner && wants?.keys.has(keyText(key)) === false),
      heir: (key) => rows().find(({ wants }) => wants?.keys.has(keyText(key)))?.id,
      mayWant: (key, commit) => {
        if (!this.isWhole) return 'what a source that cannot be read wants is not known'
        const own = this.#rows.get(source)
        const other = rows().find((row) => !isKnown(row, own, commit) && couldWant(row, key))
        return other && `what source ${nameOf(other)} wants is not known yet`
      },
      wanted: () => rows().flatMap(({ wants }) => [...(wants?.keys.values() ?? [])]),
      hasRoom: (keys) => {
        if (keys.size <= maxObjects / this.#rows.size) return true
        const all = new Set(keys.keys()) // what moves counts once
        for (const { wants } of rows()) for (const text of wants?.keys.keys() ?? []) all.add(text)
        return all.size <= maxObjects
      },
    }
  }

  #rowsBeside(source: object): readonly SourceRow[] {
    return [...this.#rows].flatMap(([one, row]) => (one === source ? [] : [row]))
  }
}

/** What it wants at `commit` of the project, where that is one of its own. */
function isKnown({ id, wants, block }: SourceRow, own: SourceRow | undefined, commit: string): boolean {
  if (!wants) return false
  const isOfSame = projectOf(id) === projectOf(own?.id) && JSON.stringify(block.ref) === JSON.stringify(own?.block.ref)
  return !isOfSame || wants.commit === commit
}

/** Whether its configuration lets it want the object, or what would go with it. */
function couldWant({ block }: SourceRow, key: ObjectKey): boolean {
  const { namespaces, resource_inclusions: resourceInclusions, resource_exclusions: resourceExclusions = [] } = block
  const reach = {
    resourceExclusions,
    ...(namespaces && { namespaces }),
    ...(resourceInclusions && { resourceInclusions }),
  }
  if (outsideReach(key, reach) === undefined || isDefinition(key)) return true
  return isNamespace(key) && (namespaces?.includes(key.name) ?? true)
}

function mayBe({ id, block: { name } }: SourceRow, of: string): boolean {
  const [, ofName] = /^\d+-\d+(?:-(.*))?$/.exec(of) ?? []
  return id === undefined ? ofName === name : id === of
}

function nameOf({ id, block }: SourceRow): string {
  return id ?? [block.id ?? 'of its own project', ...(block.name === undefined ? [] : [block.name])].join(' ')
}

function isSame(one: SourceWants, other: SourceWants): boolean {
  if (one.commit !== other.commit || one.keys.size !== other.keys.size) return false
  return [...one.keys.keys()].every((text) => other.keys.has(text))
}

/** Its number: the configuration may name one project in several ways. */
function projectOf(id: string | undefined): string | undefined {
  return id?.split('-')[1]
}
