import type { FollowState, ObjectRecord, ObjectSink } from '../../src/agentk/modules/views/store/record.ts'
import type { ResourceKind } from '../../src/kubernetes/kind.ts'
import { type KubernetesObject, textAt } from '../../src/kubernetes/object.ts'

interface Kept {
  readonly kind: ResourceKind
  readonly object: KubernetesObject
}

/** Keeps all objects and states that it gets, as records do. */
export class KeptSink implements ObjectSink {
  readonly objects = new Map<string, Kept>()
  readonly states = new Map<string, FollowState>()
  /** all calls in order: `<word> <kind> <namespace or name>` */
  readonly told: string[] = []
  readonly #untold = new Map<string, Set<string>>()

  get(uid: string): ObjectRecord | undefined {
    const kept = this.objects.get(uid)
    return kept && ({ uid, kind: kept.kind } as ObjectRecord)
  }

  /** Names of a kind's objects: `<namespace>/<name>`, or the name alone, sorted. */
  names(kind: string): string[] {
    const all = [...this.objects.values()].filter((each) => each.kind.key === kind)
    return all.map(({ object }) => placeOf(object)).sort()
  }

  is(kind: string): FollowState['is'] | undefined {
    return this.states.get(kind)?.is
  }

  listing(kind: ResourceKind, namespace: string | undefined): void {
    this.#tell('listing', kind, namespace)
    const all = [...this.objects].filter(([, each]) => isIn(each, kind, namespace))
    this.#untold.set(`${kind.key} ${namespace}`, new Set(all.map(([uid]) => uid)))
  }

  put(kind: ResourceKind, object: KubernetesObject): void {
    const uid = textAt(object, 'metadata.uid')
    this.#tell('put', kind, placeOf(object))
    this.objects.set(uid, { kind, object })
    for (const untold of this.#untold.values()) untold.delete(uid)
  }

  deleted(kind: ResourceKind, uid: string): void {
    const known = this.objects.get(uid)
    if (!known || known.kind.key !== kind.key) return
    this.#tell('gone', kind, placeOf(known.object))
    this.objects.delete(uid)
  }

  listed(kind: ResourceKind, namespace: string | undefined): void {
    for (const uid of this.#untold.get(`${kind.key} ${namespace}`) ?? []) this.deleted(kind, uid)
    this.#untold.delete(`${kind.key} ${namespace}`)
    this.#tell('listed', kind, namespace)
  }

  dropped(kind: ResourceKind, namespace: string | undefined): void {
    this.#tell('dropped', kind, namespace)
    for (const [uid, each] of [...this.objects]) if (isIn(each, kind, namespace)) this.objects.delete(uid)
    if (namespace === undefined) this.states.delete(kind.key)
  }

  state(kind: ResourceKind, state: FollowState): void {
    this.#tell(state.is, kind, undefined)
    this.states.set(kind.key, state)
  }

  #tell(word: string, { key }: ResourceKind, what: string | undefined): void {
    this.told.push([word, key, ...(what === undefined ? [] : [what])].join(' '))
  }
}

function isIn({ kind, object }: Kept, { key }: ResourceKind, namespace: string | undefined): boolean {
  return kind.key === key && (namespace === undefined || textAt(object, 'metadata.namespace') === namespace)
}

function placeOf(object: KubernetesObject): string {
  const namespace = textAt(object, 'metadata.namespace')
  return `${namespace && `${namespace}/`}${textAt(object, 'metadata.name')}`
}
