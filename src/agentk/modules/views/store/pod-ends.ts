import { type KubernetesObject, namespaceOf, textAt, uidOf } from '../../../../kubernetes/object.ts'
import { countsForMs } from '../../../health/kas/evidence.ts'
import { endOfPod, type PodEnd } from '../../../health/kas/pod-ends.ts'
import { metadataOf } from '../projection/metadata.ts'

/** of one owner: the last */
const maxPerOwner = 8
/** The owner whose Pod ended the longest ago goes first. */
const maxOwners = 1000

/** How Pods have ended, for their owners: the end is known for an hour, though the Pod is deleted. */
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
