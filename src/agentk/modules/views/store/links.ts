import { Multimap } from './multimap.ts'
import { Naming } from './naming.ts'
import { customParentsOf } from './object-record.ts'
import type { ObjectRecord, Place } from './record.ts'

/** what links are made of */
const linking = ['owner', 'customParent', 'claim', 'references', 'node'] as const

const statefulSet = 'apps/StatefulSet'

const place = (...texts: readonly string[]) => JSON.stringify(texts)

/** Uids of objects by what they name: owners, custom parents, applications, whatever else. */
export class Links {
  /** by the uid of the owner */
  readonly #owned = new Multimap<string, string>()
  /** by kind, namespace and name of each custom parent */
  readonly #customChildren = new Multimap<string, string>()
  /** by kind, namespace and name of what stands for the application */
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
      this.#owned.has(uid) || (kind.key === statefulSet && this.#customChildren.has(place(kind.key, namespace, name)))
    )
  }

  *claiming(parent: Place): Iterable<string> {
    yield* this.#owned.get(parent.uid)
    yield* this.claimingByCustom(parent)
    yield* this.#claims.get(place(parent.kind.key, parent.namespace, parent.name))
  }

  claimingByCustom({ kind, namespace, name }: Place): Iterable<string> {
    return this.#customChildren.get(place(kind.key, namespace, name))
  }

  #add(record: ObjectRecord): void {
    const { uid, namespace, owner, claim } = record
    if (owner) this.#owned.add(owner.uid, uid)
    this.#naming.add(record)
    if (claim?.kind) this.#claims.add(place(claim.kind, claim.namespace, claim.name), uid)
    for (const { kind, name } of customParentsOf(record)) this.#customChildren.add(place(kind, namespace, name), uid)
  }

  #delete(record: ObjectRecord): void {
    const { uid, namespace, owner, claim } = record
    if (owner) this.#owned.delete(owner.uid, uid)
    this.#naming.delete(record)
    if (claim?.kind) this.#claims.delete(place(claim.kind, claim.namespace, claim.name), uid)
    for (const { kind, name } of customParentsOf(record)) this.#customChildren.delete(place(kind, namespace, name), uid)
  }
}
