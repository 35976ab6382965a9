import { KasError } from '../../../lib/errors.ts'
import { FairQueue } from '../../../lib/turns.ts'
import type { TunnelRequest } from '../shares.ts'
import type { Tunnel } from '../tunnel.ts'

export interface Waiter {
  /** the caller's key: callers take turns */
  readonly source: string
  readonly request: TunnelRequest
  readonly since: number
  readonly resolve: (tunnel: Tunnel) => void
  readonly reject: (error: KasError) => void
}

/** Calls that wait for a tunnel of one agent: by method, of each by turns of callers, of one caller first in, first out. */
export class WaitingCalls {
  readonly #maxSize: number
  /** the one whose turn is next first; a tunnel that serves none of them costs no more than their names */
  readonly #byMethod = new Map<string, FairQueue<Waiter>>()
  #size = 0

  constructor(maxSize: number) {
    this.#maxSize = maxSize
  }

  get size(): number {
    return this.#size
  }

  /** @throws KasError TOO_MANY_WAITING: who waits most makes room for others, else there is none */
  add(waiter: Waiter): void {
    const limit = this.#maxSize
    const { method } = waiter.request
    const tooMany = () => new KasError({ code: 'TOO_MANY_WAITING', limit })
    const queue = this.#byMethod.get(method) ?? new FairQueue<Waiter>(limit)
    if (this.#size >= limit && queue.size < limit) throw tooMany() // others wait for another method
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
   * Whose turn it is, of those whose method is served: it waits no more.
   *
   * @param may - those that may not keep their turn
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

  /** Those who wait for what some tunnel serves: for all others no tunnel will do. */
  servedBy(tunnels: Iterable<Pick<Tunnel, 'methods'>>): Waiter[] {
    const all = [...tunnels]
    return [...this.#byMethod].flatMap(([method, queue]) =>
      all.some(({ methods }) => methods.has(method)) ? [...queue.items()] : [],
    )
  }
}
