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

interface Shared {
  readonly objects: RelatedObjects
  readonly listeners: Map<object, () => void>
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

/** Namespaces of all sources of an agent. Sources of one account share what they read of a namespace. */
export class RelatedNamespaces {
  readonly #components: Pick<RelatedObjectsComponents, 'room' | 'clock' | 'random'>
  readonly #open = new Counter<string>({ max: maxRelatedNamespaces })
  readonly #shared = new Map<string, Shared>()

  constructor(components: Pick<RelatedObjectsComponents, 'room' | 'clock' | 'random'>) {
    this.#components = components
  }

  /**
   * Follows a namespace until the reader leaves.
   *
   * @param onChange - called when the objects are others
   * @returns undefined: the limit of namespaces is reached
   */
  enter(
    { account, namespace }: RelatedPlace,
    client: RelatedObjectsComponents['client'],
    onChange: () => void,
  ): RelatedReader | undefined {
    const name = `${account} ${namespace}`
    const shared = this.#shared.get(name) ?? this.#begin(name, client, namespace)
    if (!shared) return undefined
    const { objects, listeners, roots } = shared
    const self = {}
    listeners.set(self, onChange)
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
        this.#shared.delete(name)
        objects.stop()
        shared.close()
      },
    }
  }

  #begin(name: string, client: RelatedObjectsComponents['client'], namespace: string): Shared | undefined {
    const close = this.#open.enter(name)
    if (!close) return undefined
    const listeners = new Map<object, () => void>()
    const onChange = () => {
      for (const listener of listeners.values()) listener()
    }
    const objects = new RelatedObjects({ client, onChange, ...this.#components }, namespace)
    const shared: Shared = { objects, listeners, roots: new Map(), close }
    this.#shared.set(name, shared)
    return shared
  }
}
