import { Counter } from '../../../../lib/counter.ts'
import { RelatedObjects, type RelatedObjectsComponents } from './related-objects.ts'

/** Limit of namespaces in which an agent follows what workloads own, with five watches each. */
export const maxRelatedNamespaces = 20

/** An account, and a namespace with its objects. */
export interface RelatedPlace {
  /** `namespace/name`; empty: agentk itself */
  readonly account: string
  readonly namespace: string
}

/** Receives what happens in a namespace. */
export interface RelatedListener {
  /** The objects are others. */
  onChange(): void
  /** Another account needs the place: the reader has ended. */
  onEnd(): void
}

interface Shared {
  readonly account: string
  readonly objects: RelatedObjects
  readonly listeners: Map<object, RelatedListener>
  readonly roots: Map<object, ReadonlySet<string>>
  readonly close: () => void
}

/** Objects of a namespace, as one source reads them. */
export interface RelatedReader {
  readonly objects: RelatedObjects
  /** Sets the workloads that are to be explained. @param roots - their uids */
  explain(roots: ReadonlySet<string>): void
  leave(): void
}

/**
 * Namespaces of all sources of an agent. Sources of one account share what they read of a namespace. Once all places are
 * taken, the account with the most gives one to an account with fewer, so that no tenant takes all.
 */
export class RelatedNamespaces {
  readonly #components: Pick<RelatedObjectsComponents, 'room' | 'clock' | 'random'>
  /** by account */
  readonly #open = new Counter<string>({ max: maxRelatedNamespaces })
  readonly #shared = new Map<string, Shared>()

  constructor(components: Pick<RelatedObjectsComponents, 'room' | 'clock' | 'random'>) {
    this.#components = components
  }

  /**
   * Follows a namespace until the reader leaves, or another account needs the place.
   *
   * @returns undefined: the limit of namespaces is reached
   */
  enter(
    place: RelatedPlace,
    client: RelatedObjectsComponents['client'],
    listener: RelatedListener,
  ): RelatedReader | undefined {
    const name = nameOf(place)
    const shared = this.#shared.get(name) ?? this.#begin(place, client)
    if (!shared) return undefined
    const { objects, listeners, roots } = shared
    const self = {}
    listeners.set(self, listener)
    const explainAll = () => objects.explain(new Set([...roots.values()].flatMap((all) => [...all])))
    return {
      objects,
      explain: (own) => {
        roots.set(self, own)
        explainAll()
      },
      leave: () => {
        listeners.delete(self)
        roots.delete(self)
        if (listeners.size > 0) explainAll()
        if (listeners.size > 0 || this.#shared.get(name) !== shared) return
        this.#end(name, shared)
      },
    }
  }

  #end(name: string, { objects, close }: Shared): void {
    this.#shared.delete(name)
    objects.stop()
    close()
  }

  #begin(place: RelatedPlace, client: RelatedObjectsComponents['client']): Shared | undefined {
    const { account, namespace } = place
    const close = this.#open.enter(account) ?? (this.#takePlace(account) ? this.#open.enter(account) : undefined)
    if (!close) return undefined
    const listeners: Shared['listeners'] = new Map()
    const onChange = () => {
      for (const listener of listeners.values()) listener.onChange()
    }
    const objects = new RelatedObjects({ client, onChange, ...this.#components }, namespace)
    const shared: Shared = { account, objects, listeners, roots: new Map(), close }
    this.#shared.set(nameOf(place), shared)
    return shared
  }

  /** Ends the newest namespace of the account with the most, if that has at least two more. @returns true: it has */
  #takePlace(account: string): boolean {
    const most = this.#open.most()
    if (most === undefined || this.#open.of(most) < this.#open.of(account) + 2) return false
    const newest = [...this.#shared].findLast(([, shared]) => shared.account === most)
    if (!newest) return false
    const [name, shared] = newest
    this.#end(name, shared)
    for (const listener of shared.listeners.values()) listener.onEnd()
    return true
  }
}

const nameOf = ({ account, namespace }: RelatedPlace) => `${account} ${namespace}`
