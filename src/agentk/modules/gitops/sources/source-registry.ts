import { keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { maxObjects } from '../../../../proto/gitops/limits.ts'
import type { SourceBlock } from '../../../../proto/gitops/schema.ts'
import { isDefinition, isNamespace } from '../manifests/parents.ts'
import { outsideReach } from '../manifests/scope.ts'
import type { Claim, SourceClaims } from '../round.ts'

/** Source of the configuration. */
export interface SourceRow {
  readonly block: SourceBlock
  /** set once its project is known */
  readonly id?: string
  /** undefined: it has claimed nothing yet */
  readonly claim?: Claim
}

/** Sources of one agent, with their claims. `source` identifies a running source, whatever its id: its SourceRunner. */
export class SourceRegistry {
  readonly #rows = new Map<object, SourceRow>()
  /** sources that want each object, by `keyText` */
  readonly #wantedBy = new Map<string, Set<object>>()
  readonly #agentId: bigint
  readonly #onClaim: (source: object, contested: ReadonlySet<object>) => void
  /** all sources of the configuration can be read */
  isWhole = true

  /**
   * @param agentId - number of the sources' agent
   * @param onClaim - called when a source has changed its claim, with the other sources of each added or removed object
   */
  constructor(agentId: bigint, onClaim: (source: object, contested: ReadonlySet<object>) => void = () => undefined) {
    this.#agentId = agentId
    this.#onClaim = onClaim
  }

  set(source: object, row: SourceRow): void {
    this.#want(source, this.#rows.get(source)?.claim, row.claim)
    this.#rows.set(source, row)
  }

  delete(source: object): void {
    this.#want(source, this.#rows.get(source)?.claim, undefined)
    this.#rows.delete(source)
  }

  get(source: object): SourceRow | undefined {
    return this.#rows.get(source)
  }

  /** @throws Error: two sources with this id would apply against each other */
  name(source: object, id: string): void {
    const row = this.#rows.get(source)
    if (this.#rowsBeside(source).some((other) => other.id === id))
      throw new Error(`gitops: the configuration has ${id} twice: sources of one project need names of their own`)
    if (row) this.#rows.set(source, { ...row, id })
  }

  /** True if another source has this id, or may have it once its project is known. */
  isBeside(source: object, id: string): boolean {
    return this.#rowsBeside(source).some((row) => this.#mayBe(row, id))
  }

  /** True if a source has this id, may have it, or adopts it. */
  has(id: string): boolean {
    return [...this.#rows.values()].some((row) => this.#mayBe(row, id) || row.block.adopt?.includes(id))
  }

  /** Returns the ids of other sources of the same project and ref whose configuration allows an object. */
  siblings(source: object, key: ObjectKey): readonly string[] {
    const own = this.#rows.get(source)
    return this.#rowsBeside(source).flatMap((row) =>
      row.id !== undefined && isOfSame(row, own) && couldWant(row, key) ? [row.id] : [],
    )
  }

  claims(source: object): SourceClaims {
    const rows = () => this.#rowsBeside(source)
    return {
      claim: (claim) => this.#claim(source, claim),
      isHandedOver: (owner, key) =>
        rows().some(({ id, claim }) => id === owner && claim?.keys.has(keyText(key)) === false),
      newOwner: (key) => {
        const other = [...(this.#wantedBy.get(keyText(key)) ?? [])].find((one) => one !== source)
        return other && this.#rows.get(other)?.id
      },
      unknownClaim: (key, commit) => {
        if (!this.isWhole) return 'a source of the configuration cannot be read: what it wants is not known'
        const own = this.#rows.get(source)
        const other = rows().find((row) => !isKnown(row, own, commit) && couldWant(row, key))
        return other && `what source ${nameOf(other)} wants is not known yet`
      },
      stands: (id) => {
        if (rows().some((row) => row.id === id)) return 'yes'
        return rows().some((row) => this.#mayBe(row, id)) ? 'perhaps' : 'no'
      },
      wanted: () => rows().flatMap(({ claim }) => [...(claim?.keys.values() ?? [])]),
      hasRoom: (keys) => {
        if (keys.size <= maxObjects / this.#rows.size) return true
        const all = new Set(keys.keys()) // an object that moves counts once
        for (const { claim } of rows()) for (const text of claim?.keys.keys() ?? []) all.add(text)
        return all.size <= maxObjects
      },
    }
  }

  #claim(source: object, claim: Claim): void {
    const row = this.#rows.get(source)
    if (!row || (row.claim && isSame(row.claim, claim))) return
    const contested = this.#want(source, row.claim, claim)
    this.#rows.set(source, { ...row, claim })
    this.#onClaim(source, contested)
  }

  /** @returns other sources that want an object which `source` has added or removed */
  #want(source: object, before: Claim | undefined, after: Claim | undefined): ReadonlySet<object> {
    const contested = new Set<object>()
    for (const text of before?.keys.keys() ?? []) {
      if (after?.keys.has(text)) continue
      const all = this.#wantedBy.get(text)
      all?.delete(source)
      for (const other of all ?? []) contested.add(other)
      if (all?.size === 0) this.#wantedBy.delete(text)
    }
    for (const text of after?.keys.keys() ?? []) {
      if (before?.keys.has(text)) continue
      const all = this.#wantedBy.get(text) ?? new Set()
      for (const other of all) contested.add(other)
      this.#wantedBy.set(text, all.add(source))
    }
    return contested
  }

  /** True if the source has the id `of`. Without a known project, any id of this agent with its name counts. */
  #mayBe({ id, block: { name } }: SourceRow, of: string): boolean {
    if (id !== undefined) return id === of
    const [, agentId, ofName] = /^(\d+)-\d+(?:-(.*))?$/.exec(of) ?? []
    return agentId === String(this.#agentId) && ofName === name
  }

  #rowsBeside(source: object): readonly SourceRow[] {
    return [...this.#rows].flatMap(([one, row]) => (one === source ? [] : [row]))
  }
}

/** True if the claim of another source counts. With the same project and ref, it has to be for `commit`. */
function isKnown(row: SourceRow, own: SourceRow | undefined, commit: string): boolean {
  const { claim } = row
  if (!claim) return false
  if (claim.isLastGood) return true
  return !isOfSame(row, own) || claim.commit === commit
}

/** True for sources of one project and ref: their commits come together. */
function isOfSame({ id, block }: SourceRow, other: SourceRow | undefined): boolean {
  return projectOf(id) === projectOf(other?.id) && JSON.stringify(block.ref) === JSON.stringify(other?.block.ref)
}

/** True if the source's configuration allows the object, or objects that would be deleted with it. */
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

function nameOf({ id, block }: SourceRow): string {
  return id ?? [block.id ?? 'of its own project', ...(block.name === undefined ? [] : [block.name])].join(' ')
}

function isSame(one: Claim, other: Claim): boolean {
  if (one.commit !== other.commit || one.keys.size !== other.keys.size) return false
  if (one.isLastGood !== other.isLastGood) return false
  return [...one.keys.keys()].every((text) => other.keys.has(text))
}

/** Returns the number of the project, since a configuration may name one project in several ways. */
function projectOf(id: string | undefined): string | undefined {
  return id?.split('-')[1]
}
