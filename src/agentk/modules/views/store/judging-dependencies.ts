import { placeKey } from '../../../../kubernetes/key.ts'
import { listedKinds } from '../../../health/kas/around.ts'
import { Multimap } from './multimap.ts'
import type { ObjectRecord, RecordChange } from './record.ts'
import { serviceOf, templateKinds } from './records-world.ts'

/** Key of what judging an object has read of others. */
export type Read = string

/** Keys of reads: equal reads have equal keys. */
export const reads = {
  object: (kind: string, namespace: string, name: string): Read => `n\n${placeKey(kind, namespace, name)}`,
  childrenOf: (uid: string): Read => `c\n${uid}`,
  /** children that have ended, or are being deleted: most Pods come and go without a change of it */
  endedOf: (uid: string): Read => `e\n${uid}`,
  pods: (namespace: string): Read => `p\n${namespace}`,
  workloads: (namespace: string): Read => `w\n${namespace}`,
  slicesOf: (namespace: string, service: string): Read => `s\n${namespace}\n${service}`,
  usersOf: (namespace: string, claim: string): Read => `u\n${namespace}\n${claim}`,
  allOf: (kind: string, namespace: string): Read => `a\n${kind}\n${namespace}`,
  live: (kind: string): Read => `l\n${kind}`,
  judged: (uid: string): Read => `j\n${uid}`,
  taints: 't' as Read,
} as const

const none: readonly Read[] = []
const templates: ReadonlySet<string> = new Set(templateKinds)

/** Finds the objects to judge again when something that was read of others has changed. */
export class JudgingDependencies {
  readonly #byRead = new Multimap<string, string>()
  readonly #byReader = new Map<string, readonly Read[]>()

  /** @returns true if the object has read anything */
  set(uid: string, all: ReadonlySet<Read>): boolean {
    const before = this.#byReader.get(uid) ?? none
    if (before.length === all.size && before.every((read) => all.has(read))) return all.size > 0
    for (const read of before) this.#byRead.delete(read, uid)
    for (const read of all) this.#byRead.add(read, uid)
    if (all.size > 0) this.#byReader.set(uid, [...all])
    else this.#byReader.delete(uid)
    return all.size > 0
  }

  delete(uid: string): void {
    for (const read of this.#byReader.get(uid) ?? none) this.#byRead.delete(read, uid)
    this.#byReader.delete(uid)
  }

  of(read: Read): Iterable<string> {
    return this.#byRead.get(read)
  }

  /** Yields the reads that a change affects, if some object has made them. */
  *changedBy(change: RecordChange): Iterable<Read> {
    if (this.#byReader.size === 0) return
    for (const read of changed(change)) if (this.#byRead.has(read)) yield read
  }
}

function* changed({ before, after, judged }: RecordChange): Iterable<Read> {
  const isThere = before === undefined || after === undefined
  const isOther = isThere || before.traits !== after.traits || !isSameParent(before, after)
  const isRelabelled = isOther || before.labels !== after.labels
  const isUsing = isThere || before.references !== after.references || before.node !== after.node
  for (const record of before === after ? [after] : [before, after]) {
    if (!record) continue
    if (isOther) yield* placeReads(record)
    if (isRelabelled && record.kind.key === 'Node') yield reads.taints
    if (record.kind.key === 'Pod' && (isRelabelled || judged)) yield reads.pods(record.namespace)
    if (record.kind.key === 'Pod' && isUsing) yield* claimReads(record)
    if (judged) yield reads.judged(record.uid)
  }
}

function isSameParent(one: ObjectRecord, other: ObjectRecord): boolean {
  return one.owner === other.owner && one.customParent === other.customParent && one.name === other.name
}

function* placeReads(record: ObjectRecord): Iterable<Read> {
  const { kind, namespace, name, owner } = record
  yield reads.object(kind.key, namespace, name)
  if (owner) yield reads.childrenOf(owner.uid)
  // only Pods that have ended, or are being deleted, have traits
  if (owner && kind.key === 'Pod' && record.traits) yield reads.endedOf(owner.uid)
  const service = serviceOf(record)
  if (service !== undefined) yield reads.slicesOf(namespace, service)
  if (listedKinds.has(kind.key)) yield reads.allOf(kind.key, namespace)
  if (templates.has(kind.key)) yield reads.workloads(namespace)
}

function* claimReads({ references, namespace }: ObjectRecord): Iterable<Read> {
  for (const { kind, name } of references) {
    if (kind === 'PersistentVolumeClaim') yield reads.usersOf(namespace, name)
  }
}
