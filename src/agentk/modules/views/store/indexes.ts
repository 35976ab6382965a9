import { placeKey } from '../../../../kubernetes/key.ts'
import { Counter } from '../../../../lib/counter.ts'
import type { Reference } from '../projection/projector.ts'
import { Multimap } from './multimap.ts'
import { customParentsOf } from './object-record.ts'
import type { ObjectRecord, Place } from './record.ts'

/** Indexes of records: by place, and by the objects that they name. Values are uids. */

type Names = Map<string, string>

/** Uids by kind, namespace and name. Kinds are `group/Kind`. */
export class Places {
  readonly #kinds = new Map<string, Map<string, Names>>()
  readonly #sizes = new Counter<string>()

  /** Number of objects of each kind that has any. */
  get sizes(): ReadonlyMap<string, number> {
    return this.#sizes.counts
  }

  find(kind: string, namespace: string, name: string): string | undefined {
    return this.#kinds.get(kind)?.get(namespace)?.get(name)
  }

  /** @param namespace - undefined: all namespaces */
  *uids(kind: string, namespace: string | undefined): Iterable<string> {
    const namespaces = this.#kinds.get(kind)
    if (namespace !== undefined) yield* namespaces?.get(namespace)?.values() ?? []
    else for (const names of namespaces?.values() ?? []) yield* names.values()
  }

  /** Yields, for each kind in each namespace, uids by name. */
  *all(): Iterable<readonly [namespace: string, uids: ReadonlyMap<string, string>]> {
    for (const namespaces of this.#kinds.values()) yield* namespaces
  }

  add({ uid, name, namespace, kind: { key } }: Place): void {
    const namespaces = this.#kinds.get(key) ?? new Map<string, Names>()
    const names: Names = namespaces.get(namespace) ?? new Map()
    this.#kinds.set(key, namespaces.set(namespace, names.set(name, uid)))
    this.#sizes.add(key)
  }

  delete({ name, namespace, kind: { key } }: Place): void {
    const namespaces = this.#kinds.get(key)
    const names = namespaces?.get(namespace)
    if (!namespaces || !names?.delete(name)) return
    if (names.size === 0) namespaces.delete(namespace)
    if (namespaces.size === 0) this.#kinds.delete(key)
    this.#sizes.add(key, -1)
  }
}

/** Finds the objects that name another, or run on it. A list of references that several objects share is kept once. */
class Naming {
  readonly #byNode = new Multimap<string, string>()
  /** lists of references by the object that they name */
  readonly #lists = new Multimap<string, readonly Reference[]>()
  readonly #byList = new Multimap<readonly Reference[], string>()

  add({ uid, references, node }: ObjectRecord): void {
    if (node !== '') this.#byNode.add(node, uid)
    if (references.length === 0) return
    const isKnown = this.#byList.has(references)
    this.#byList.add(references, uid)
    if (isKnown) return
    for (const { kind, namespace, name } of references) this.#lists.add(placeKey(kind, namespace, name), references)
  }

  delete({ uid, references, node }: ObjectRecord): void {
    if (node !== '') this.#byNode.delete(node, uid)
    if (!this.#byList.has(references)) return
    this.#byList.delete(references, uid)
    if (this.#byList.has(references)) return
    for (const { kind, namespace, name } of references) this.#lists.delete(placeKey(kind, namespace, name), references)
  }

  *of(kind: string, namespace: string, name: string): Iterable<string> {
    if (kind === 'Node') yield* this.#byNode.get(name)
    for (const list of this.#lists.get(placeKey(kind, namespace, name))) yield* this.#byList.get(list)
  }
}

/** fields that links are made of */
const linking = ['owner', 'customParent', 'claim', 'references', 'node'] as const

const statefulSet = 'apps/StatefulSet'

/** Uids of objects by the objects that they name: owners, custom parents, applications and others. */
export class Links {
  /** by the uid of the owner */
  readonly #owned = new Multimap<string, string>()
  /** by kind, namespace and name of each custom parent */
  readonly #customChildren = new Multimap<string, string>()
  /** by kind, namespace and name of the object that represents the application */
  readonly #claims = new Multimap<string, string>()
  readonly #naming = new Naming()

  change(before: ObjectRecord | undefined, after: ObjectRecord | undefined): void {
    if (before && after && linking.every((field) => before[field] === after[field])) return
    if (before) this.#delete(before)
    if (after) this.#add(after)
  }

  naming(kind: string, namespace: string, name: string): Iterable<string> {
    return this.#naming.of(kind, namespace, name)
  }

  isClaimed({ uid, kind, namespace, name }: Place): boolean {
    return (
      this.#owned.has(uid) ||
      (kind.key === statefulSet && this.#customChildren.has(placeKey(kind.key, namespace, name)))
    )
  }

  *claiming(parent: Place): Iterable<string> {
    yield* this.#owned.get(parent.uid)
    yield* this.claimingByCustom(parent)
    yield* this.#claims.get(placeKey(parent.kind.key, parent.namespace, parent.name))
  }

  claimingByCustom({ kind, namespace, name }: Place): Iterable<string> {
    return this.#customChildren.get(placeKey(kind.key, namespace, name))
  }

  #add(record: ObjectRecord): void {
    const { uid, namespace, owner, claim } = record
    if (owner) this.#owned.add(owner.uid, uid)
    this.#naming.add(record)
    if (claim?.kind) this.#claims.add(placeKey(claim.kind, claim.namespace, claim.name), uid)
    for (const { kind, name } of customParentsOf(record)) this.#customChildren.add(placeKey(kind, namespace, name), uid)
  }

  #delete(record: ObjectRecord): void {
    const { uid, namespace, owner, claim } = record
    if (owner) this.#owned.delete(owner.uid, uid)
    this.#naming.delete(record)
    if (claim?.kind) this.#claims.delete(placeKey(claim.kind, claim.namespace, claim.name), uid)
    for (const { kind, name } of customParentsOf(record))
      this.#customChildren.delete(placeKey(kind, namespace, name), uid)
  }
}
