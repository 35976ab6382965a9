import type { ResourceKind } from '../../../cluster/api-kinds.ts'
import { type KubernetesObject, textAt } from '../../../health/object.ts'
import type { FollowState, ObjectSink, ReadonlyRecords } from '../store/record.ts'

/**
 * Two groups may serve the same object, such as `extensions` and `networking.k8s.io`, under the same uid: it belongs to
 * the first one in the server's order.
 */
export class FirstGroup implements ObjectSink {
  readonly #sink: ObjectSink & Pick<ReadonlyRecords, 'get'>
  /** place of a group in the server's order */
  #places: ReadonlyMap<string, number> = new Map()

  constructor(sink: ObjectSink & Pick<ReadonlyRecords, 'get'>) {
    this.#sink = sink
  }

  /** @param groups - in the server's order */
  order(groups: Iterable<string>): void {
    this.#places = new Map(Array.from(new Set(groups), (group, place) => [group, place]))
  }

  put(kind: ResourceKind, object: KubernetesObject): void {
    const uid = textAt(object, 'metadata.uid')
    const other = this.#sink.get(uid)?.kind
    if (other && other.group !== kind.group) {
      if (this.#place(other) <= this.#place(kind)) return
      this.#sink.gone(other, uid)
    }
    this.#sink.put(kind, object)
  }

  gone(kind: ResourceKind, uid: string): void {
    const owner = this.#sink.get(uid)?.kind
    if (owner === undefined || owner.group === kind.group) this.#sink.gone(kind, uid)
  }

  listing(kind: ResourceKind, namespace: string | undefined): void {
    this.#sink.listing(kind, namespace)
  }

  listed(kind: ResourceKind, namespace: string | undefined): void {
    this.#sink.listed(kind, namespace)
  }

  dropped(kind: ResourceKind, namespace: string | undefined): void {
    this.#sink.dropped(kind, namespace)
  }

  state(kind: ResourceKind, state: FollowState): void {
    this.#sink.state(kind, state)
  }

  #place({ group }: ResourceKind): number {
    return this.#places.get(group) ?? Number.POSITIVE_INFINITY
  }
}
