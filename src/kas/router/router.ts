import type { Call, Reply } from '../../call/call.ts'
import type { Offer } from '../../call/offer.ts'
import type { Replicas } from '../replicas/links.ts'
import type { Tunnels } from '../tunnels/tunnels.ts'
import { HedgeBudget } from './hedge-budget.ts'
import { defaultSearch, Search, type SearchOptions } from './search.ts'

/** What the router tells: metrics.ts has one. */
export interface RouterObserver {
  routed(status: 'success' | 'aborted', seconds: number): void
  timedOut(): void
}

export interface RouterComponents {
  readonly tunnels: Tunnels
  readonly observer: RouterObserver
  /** absent: this replica is alone */
  readonly replicas?: Pick<Replicas, 'ways' | 'holds' | 'onChange'>
}

/** No other replicas. */
const alone: Pick<Replicas, 'ways' | 'holds' | 'onChange'> = {
  ways: () => [],
  holds: () => false,
  onChange: () => () => undefined,
}

/**
 * Finds the way of a call: an own idle tunnel, else one of another holder, else the first that comes (doc/routing.md).
 */
export class Router {
  readonly #components: RouterComponents & { replicas: Pick<Replicas, 'ways' | 'holds' | 'onChange'> }
  readonly #options: SearchOptions
  readonly #hedges = new HedgeBudget()

  constructor(components: RouterComponents, options: SearchOptions = defaultSearch) {
    this.#components = { replicas: alone, ...components }
    this.#options = options
  }

  /**
   * @throws KasError AGENT_NOT_CONNECTED, AGENT_SATURATED, HOLDER_UNREACHABLE, TOO_MANY_WAITING, or the reason of
   *   `call.signal`
   */
  forward = async (call: Call): Promise<Reply> => {
    const began = performance.now()
    const { tunnels, observer } = this.#components
    this.#hedges.earn()
    const way = tunnels.take(call.agentId, call.method) ?? (await this.#search(call, began))
    observer.routed('success', (performance.now() - began) / 1000)
    return way.forward(call)
  }

  async #search(call: Call, began: number): Promise<Offer> {
    const { observer } = this.#components
    try {
      return await new Search({ ...this.#components, hedges: this.#hedges }, call, this.#options).run()
    } catch (error) {
      observer.routed('aborted', (performance.now() - began) / 1000)
      if (!call.signal.aborted) observer.timedOut()
      throw error
    }
  }
}
