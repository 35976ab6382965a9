import { customParentsOf } from '../../../src/agentk/modules/views/store/object-record.ts'
import type { ObjectRecord, ReadonlyRecords, RecordChange } from '../../../src/agentk/modules/views/store/record.ts'

/** Records as tests put them. */
export class RecordsDouble implements ReadonlyRecords {
  readonly #records = new Map<string, ObjectRecord>()
  readonly #byOwner = new Map<string, Set<string>>()
  readonly #listeners = new Set<(change: RecordChange) => void>()

  get size(): number {
    return this.#records.size
  }

  get(uid: string): ObjectRecord | undefined {
    return this.#records.get(uid)
  }

  all(): Iterable<ObjectRecord> {
    return this.#records.values()
  }

  named(kind: string, namespace: string, name: string): ObjectRecord | undefined {
    const found = this.#where(
      (record) => record.kind.key === kind && record.namespace === namespace && record.name === name,
    )
    return found.sort((one, other) => (one.uid < other.uid ? -1 : 1))[0]
  }

  claiming(parent: ObjectRecord): Iterable<ObjectRecord> {
    const claims = [parent.uid, customKey(parent.namespace, parent.kind.key, parent.name)]
    return claims.flatMap((key) =>
      [...(this.#byOwner.get(key) ?? [])].map((uid) => this.#records.get(uid) as ObjectRecord),
    )
  }

  places(): ReturnType<ReadonlyRecords['places']> {
    const byPlace = Map.groupBy(this.#records.values(), ({ kind, namespace }) => `${kind.key} ${namespace}`)
    return [...byPlace.values()].map((all) => {
      const { kind, namespace } = all[0] as ObjectRecord
      return { kind, namespace, size: all.length }
    })
  }

  inNamespace(kind: string, namespace: string): Iterable<ObjectRecord> {
    return this.#where((record) => record.kind.key === kind && record.namespace === namespace)
  }

  onChange(listener: (change: RecordChange) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  put(record: ObjectRecord): void {
    const before = this.#records.get(record.uid)
    if (before) this.#unclaim(before)
    this.#records.set(record.uid, record)
    for (const key of claimsOf(record)) {
      this.#byOwner.set(key, (this.#byOwner.get(key) ?? new Set()).add(record.uid))
    }
    this.#tell({ before, after: record })
  }

  delete(uid: string): void {
    const before = this.#records.get(uid)
    if (!before) return
    this.#unclaim(before)
    this.#records.delete(uid)
    this.#tell({ before, after: undefined })
  }

  #unclaim(record: ObjectRecord): void {
    for (const key of claimsOf(record)) this.#byOwner.get(key)?.delete(record.uid)
  }

  #where(holds: (record: ObjectRecord) => boolean): ObjectRecord[] {
    return [...this.#records.values()].filter(holds)
  }

  #tell(change: RecordChange): void {
    for (const listener of this.#listeners) listener(change)
  }
}

const customKey = (namespace: string, kind: string, name: string) => JSON.stringify([namespace, kind, name])

function claimsOf(record: ObjectRecord): string[] {
  const { owner, claim } = record
  const application = claim ? [customKey(claim.namespace, claim.kind, claim.name)] : []
  if (owner) return [owner.uid, ...application]
  const custom = customParentsOf(record).map(({ kind, name }) => customKey(record.namespace, kind, name))
  return [...custom, ...application]
}
