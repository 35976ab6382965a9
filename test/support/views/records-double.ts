import { isSameJudgement, type Judgement } from '../../../src/agentk/modules/views/store/judgement.ts'
import { customParentsOf } from '../../../src/agentk/modules/views/store/object-record.ts'
import type {
  ObjectRecord,
  Place,
  ReadonlyRecords,
  RecordChange,
} from '../../../src/agentk/modules/views/store/record.ts'
import type { ResourceKind } from '../../../src/kubernetes/kind.ts'
import type { KubernetesObject } from '../../../src/kubernetes/object.ts'

/** Records that a test sets. */
export class RecordsDouble implements ReadonlyRecords {
  readonly #records = new Map<string, ObjectRecord>()
  readonly #byOwner = new Map<string, Set<string>>()
  /** uids by the `customKey` of an object's own place */
  readonly #byPlace = new Map<string, Set<string>>()
  readonly #listeners = new Set<(change: RecordChange) => void>()
  /** uids of objects that name an object, by its place */
  readonly #naming = new Map<string, Set<string>>()
  readonly #judged = new Map<string, Judgement>()
  readonly #objects = new Map<string, KubernetesObject>()

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
    const [first] = [...(this.#byPlace.get(customKey(namespace, kind, name)) ?? [])].sort()
    return first === undefined ? undefined : this.#records.get(first)
  }

  judged(uid: string): Judgement | undefined {
    return this.#judged.get(uid)
  }

  objectOf(record: ObjectRecord): KubernetesObject {
    const { kind, name, namespace, uid, traits } = record
    const metadata = { name, namespace, uid, ...(traits?.metadata as object | undefined) }
    const apiVersion = kind.group === '' ? 'v1' : `${kind.group}/v1`
    const bare = { ...traits, apiVersion, kind: kind.key.slice(kind.key.indexOf('/') + 1), metadata }
    return { ...bare, ...this.#objects.get(uid), metadata }
  }

  kindOf(kind: string): ResourceKind | undefined {
    return this.#where((record) => record.kind.key === kind)[0]?.kind
  }

  naming(kind: string, namespace: string, name: string): Iterable<ObjectRecord> {
    const uids = this.#naming.get(customKey(namespace, kind, name)) ?? []
    return [...uids].map((uid) => this.#records.get(uid) as ObjectRecord)
  }

  isClaimed(parent: Place): boolean {
    for (const _ of this.claiming(parent)) return true
    return false
  }

  claimingByCustom({ kind, namespace, name }: Place): Iterable<ObjectRecord> {
    const found = this.#byOwner.get(customKey(namespace, kind.key, name)) ?? []
    return [...found].map((uid) => this.#records.get(uid) as ObjectRecord).filter(({ owner }) => !owner)
  }

  claiming(parent: Place): Iterable<ObjectRecord> {
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

  keptOf(uid: string): KubernetesObject | undefined {
    return this.#objects.get(uid)
  }

  /**
   * @param judgement - absent: it is Healthy
   * @param object - more kept fields of it
   */
  put(record: ObjectRecord, judgement?: Judgement, object?: KubernetesObject): void {
    const before = this.#records.get(record.uid)
    const judged = this.#judge(record.uid, judgement)
    if (object) this.#objects.set(record.uid, object)
    else this.#objects.delete(record.uid)
    if (before) this.#unclaim(before)
    this.#records.set(record.uid, record)
    const place = placeOf(record)
    this.#byPlace.set(place, (this.#byPlace.get(place) ?? new Set()).add(record.uid))
    for (const key of claimsOf(record)) {
      this.#byOwner.set(key, (this.#byOwner.get(key) ?? new Set()).add(record.uid))
    }
    for (const key of namesIn(record)) {
      this.#naming.set(key, (this.#naming.get(key) ?? new Set()).add(record.uid))
    }
    this.#tell({ before, after: record, ...judged })
  }

  delete(uid: string): void {
    const before = this.#records.get(uid)
    if (!before) return
    this.#unclaim(before)
    this.#records.delete(uid)
    this.#tell({ before, after: undefined, ...this.#judge(uid, undefined) })
  }

  #judge(uid: string, after: Judgement | undefined): Pick<RecordChange, 'judged'> {
    const before = this.#judged.get(uid)
    if (after) this.#judged.set(uid, after)
    else this.#judged.delete(uid)
    return isSameJudgement(before, after) ? {} : { judged: { before, after } }
  }

  #unclaim(record: ObjectRecord): void {
    this.#byPlace.get(placeOf(record))?.delete(record.uid)
    for (const key of claimsOf(record)) this.#byOwner.get(key)?.delete(record.uid)
    for (const key of namesIn(record)) this.#naming.get(key)?.delete(record.uid)
  }

  #where(holds: (record: ObjectRecord) => boolean): ObjectRecord[] {
    return [...this.#records.values()].filter(holds)
  }

  #tell(change: RecordChange): void {
    for (const listener of this.#listeners) listener(change)
  }
}

const customKey = (namespace: string, kind: string, name: string) => JSON.stringify([namespace, kind, name])

const placeOf = ({ namespace, kind, name }: ObjectRecord) => customKey(namespace, kind.key, name)

function claimsOf(record: ObjectRecord): string[] {
  const { owner, claim } = record
  const application = claim ? [customKey(claim.namespace, claim.kind, claim.name)] : []
  if (owner) return [owner.uid, ...application]
  const custom = customParentsOf(record).map(({ kind, name }) => customKey(record.namespace, kind, name))
  return [...custom, ...application]
}

function namesIn({ references, node }: ObjectRecord): string[] {
  const named = references.map(({ kind, namespace, name }) => customKey(namespace, kind, name))
  return node ? [...named, customKey('', 'Node', node)] : named
}
