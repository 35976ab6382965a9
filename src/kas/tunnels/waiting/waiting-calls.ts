import { KasError } from '../../../lib/errors.ts'
import { FairQueue } from '../../../lib/turns.ts'
import type { Tunnel } from '../tunnel.ts'
import type { TunnelRequest } from '../tunnel-shares.ts'

export interface Waiter {
  /** the caller's key: callers take turns */
  readonly source: string
  readonly request: TunnelRequest
  readonly since: number
  readonly resolve: (tunnel: Tunnel) => void
  readonly reject: (error: KasError) => void
}

/** Calls that wait for a tunnel of an agent: methods take turns, in each its callers; a caller's calls are in order. */
export class WaitingCalls {
  readonly #maxSize: number
  /** the method whose turn is next first; a tunnel that serves none costs one check per method */
  readonly #byMethod = new Map<string, FairQueue<Waiter>>()
  #size = 0

  constructor(maxSize: number) {
    this.#maxSize = maxSize
  }

  get size(): number {
    return this.#size
  }

  /** @throws KasError TOO_MANY_WAITING: all places are taken, and no other caller has more calls for the method */
  add(waiter: Waiter): void {
    const limit = this.#maxSize
    const { method } = waiter.request
    const tooMany = () => new KasError({ code: 'TOO_MANY_WAITING', limit })
    const queue = this.#byMethod.get(method) ?? new FairQueue<Waiter>(limit)
    if (this.#size >= limit && queue.size < limit) throw tooMany() // the others wait for another method
    const loser = queue.add(waiter)
    if (loser === waiter) throw tooMany()
    this.#byMethod.set(method, queue)
    if (loser) loser.reject(tooMany())
    else this.#size++
  }

  delete(waiter: Waiter): void {
    const { method } = waiter.request
    const queue = this.#byMethod.get(method)
    if (!queue?.delete(waiter)) return
    if (queue.size === 0) this.#byMethod.delete(method)
    this.#size--
  }

  /**
   * Removes and returns the waiting call whose turn it is, among those whose method is served.
   *
   * @param may - false: the call may not have the tunnel, and keeps its turn
   */
  take(methods: ReadonlySet<string>, may: (request: TunnelRequest) => boolean): Waiter | undefined {
    for (const [method, queue] of this.#byMethod) {
      const waiter = methods.has(method) ? queue.take((_, { request }) => may(request)) : undefined
      if (!waiter) continue
      this.#byMethod.delete(method)
      if (queue.size > 0) this.#byMethod.set(method, queue) // behind the other methods
      this.#size--
      return waiter
    }
    return undefined
  }

  /** Calls whose method some tunnel serves: no tunnel helps the other calls. */
  servedBy(tunnels: Iterable<Pick<Tunnel, 'methods'>>): Waiter[] {
    const all = [...tunnels]
    return [...this.#byMethod].flatMap(([method, queue]) =>
      all.some(({ methods }) => methods.has(method)) ? [...queue.items()] : [],
    )
  }
}
