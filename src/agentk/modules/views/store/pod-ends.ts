import { type KubernetesObject, namespaceOf, textAt, uidOf } from '../../../../kubernetes/object.ts'
import { countsForMs } from '../../../health/kas/evidence.ts'
import { endOfPod, type PodEnd } from '../../../health/kas/pod-ends.ts'
import { metadataOf } from '../projection/metadata.ts'

/** bound of ends for one owner: the last stay */
const maxPerOwner = 8
/** Past it, the owner whose Pod ended the longest ago is removed. */
const maxOwners = 1000

/** Ends of Pods, by their owners: an end is known for an hour, also after the Pod was deleted. */
export class PodEnds {
  /** by namespace and uid of the owner */
  readonly #ends = new Map<string, readonly PodEnd[]>()

  see(pod: KubernetesObject, now: number): void {
    const isEnding = textAt(pod, 'status.phase') === 'Failed' || textAt(pod, 'metadata.deletionTimestamp') !== ''
    const end = isEnding ? endOfPod(pod, now) : undefined
    const owner = end && metadataOf(pod)?.owner
    if (!owner) return
    const key = keyOf(namespaceOf(pod), owner.uid)
    const others = (this.#ends.get(key) ?? []).filter(({ uid }) => uid !== end.uid)
    this.#ends.delete(key)
    this.#ends.set(key, [...others, end].slice(-maxPerOwner))
    const [oldest] = this.#ends.keys()
    if (this.#ends.size > maxOwners && oldest !== undefined) this.#ends.delete(oldest)
  }

  of(owner: KubernetesObject, now: number): readonly PodEnd[] {
    const ends = this.#ends.get(keyOf(namespaceOf(owner), uidOf(owner))) ?? []
    return ends.filter(({ at }) => now - at <= countsForMs)
  }
}

const keyOf = (namespace: string, uid: string) => `${namespace}\n${uid}`
