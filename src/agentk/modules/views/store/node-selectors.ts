export interface NodeSelectorsOptions {
  /** bound of the selectors of all namespaces; past it, the namespace with the most loses its oldest */
  readonly max: number
  /** bound of the selectors of one namespace; past it, no node is read for it */
  readonly maxPerNamespace: number
}

export const nodeSelectorsDefaults: NodeSelectorsOptions = { max: 1024, maxPerNamespace: 256 }

/** Keeps results about nodes by selector. Pods may use any selector: one namespace takes no room from others. */
export class NodeSelectors<Found> {
  readonly #options: NodeSelectorsOptions
  /** by selector */
  readonly #found = new Map<string, { readonly found: Found; readonly namespaces: Set<string> }>()
  /** selectors by namespace, the oldest first */
  readonly #asked = new Map<string, Set<string>>()
  #size = 0

  constructor(options: NodeSelectorsOptions = nodeSelectorsDefaults) {
    this.#options = options
  }

  /** @returns `unread`: the namespace has too many selectors, and no node was read */
  get(namespace: string, selector: string, find: () => Found): Found | 'unread' {
    const own = this.#asked.get(namespace) ?? new Set()
    const known = this.#found.get(selector)
    if (known && own.has(selector)) return known.found
    if (!this.#makeRoom(own.size)) return 'unread'
    const { found, namespaces } = known ?? { found: find(), namespaces: new Set<string>() }
    this.#found.set(selector, { found, namespaces: namespaces.add(namespace) })
    this.#asked.set(namespace, own.add(selector))
    this.#size++
    return found
  }

  clear(): void {
    this.#found.clear()
    this.#asked.clear()
    this.#size = 0
  }

  /** @param own - number of selectors of the namespace that asks */
  #makeRoom(own: number): boolean {
    const { max, maxPerNamespace } = this.#options
    if (own >= maxPerNamespace) return false
    if (this.#size < max) return true
    const [largest] = [...this.#asked].sort(([, one], [, other]) => other.size - one.size)
    if (!largest || largest[1].size <= own + 1) return false
    const [namespace, selectors] = largest
    const [oldest = ''] = selectors
    selectors.delete(oldest)
    const { namespaces } = this.#found.get(oldest) ?? {}
    namespaces?.delete(namespace)
    if (namespaces?.size === 0) this.#found.delete(oldest)
    this.#size--
    return true
  }
}
