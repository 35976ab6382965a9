import type { ApiClient, KubernetesObject } from '../../dev/control-plane/api-client.ts'
import type { TornDown } from './processes.ts'
import { patience } from './slowness.ts'

/** One holder's time in a lease. */
export interface Term {
  /** the holder's POD_NAME */
  pod: string
  /** time of acquisition by the holder's clock */
  acquiredAt: number
  transitions: number
}

/** Terms of a lease's holders, one after another, from a watch of the API server. */
export class LeaseTerms {
  readonly terms: Term[] = []
  readonly #name: string
  readonly #stop = new AbortController()
  readonly #listeners = new Set<() => void>()
  #failure: unknown

  private constructor(name: string) {
    this.#name = name
  }

  /** @param name - of a lease in the namespace `default`, which need not exist yet */
  static start(t: TornDown, admin: ApiClient, name: string): LeaseTerms {
    const terms = new LeaseTerms(name)
    t.teardown(() => terms.#stop.abort())
    void terms.#watch(admin)
    return terms
  }

  /**
   * Resolves with the term after the `past` first ones, once it has begun. @throws Error after `timeoutMs`, or when the
   * watch fails
   */
  async next(past: number, timeoutMs: number): Promise<Term> {
    const signal = AbortSignal.timeout(patience(timeoutMs))
    const { promise, resolve, reject } = Promise.withResolvers<Term>()
    const look = () => {
      const term = this.terms[past]
      if (term) resolve(term)
      else if (this.#failure) reject(this.#failure)
    }
    const fail = () => reject(new Error(`nobody took the lease in ${timeoutMs} ms after ${JSON.stringify(this.terms)}`))
    this.#listeners.add(look)
    signal.addEventListener('abort', fail)
    look()
    try {
      return await promise
    } finally {
      signal.removeEventListener('abort', fail)
      this.#listeners.delete(look)
    }
  }

  async #watch(admin: ApiClient): Promise<void> {
    const leases = '/apis/coordination.k8s.io/v1/namespaces/default/leases'
    try {
      for await (const { object } of admin.watch(leases, this.#stop.signal)) this.#see(object)
      throw new Error('the watch ended')
    } catch (error) {
      this.#failure = error
    }
    for (const listener of this.#listeners) listener()
  }

  #see({ metadata, spec }: KubernetesObject): void {
    if (metadata.name !== this.#name) return
    const { holderIdentity = '', leaseTransitions = 0, acquireTime } = spec
    const last = this.terms.at(-1)
    if (last?.transitions === leaseTransitions) return
    const pod = holderIdentity.slice(0, holderIdentity.indexOf('_'))
    this.terms.push({ pod, acquiredAt: Date.parse(acquireTime), transitions: leaseTransitions })
    for (const listener of this.#listeners) listener()
  }
}
