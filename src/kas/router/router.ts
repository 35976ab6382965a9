import type { AgentId, Call, Reply } from '../../call/call.ts'
import type { Offer } from '../../call/offer.ts'
import { type Clock, monotonicClock } from '../../lib/clock.ts'
import type { Links } from '../peers/links.ts'
import type { AwayAgents } from '../tunnels/away-agents.ts'
import type { TunnelRegistry } from '../tunnels/tunnel-registry.ts'
import {
  createHedges,
  defaultSearch,
  hedgesPerCall,
  type SearchComponents,
  type SearchOptions,
  TunnelSearch,
} from './tunnel-search.ts'

/** Receives what the router reports; lib/metrics.ts implements it. */
export interface RouterObserver {
  /** a tunnel was found, or the search has ended without one */
  routed(status: 'success' | 'aborted', seconds: number): void
  /** the search has ended without a tunnel, and not because the caller left */
  timedOut(): void
}

export interface RouterComponents {
  readonly tunnels: TunnelRegistry
  readonly observer: RouterObserver
  /** absent: this replica is alone */
  readonly links?: Pick<Links, 'candidates' | 'holds' | 'serves' | 'onChange'> | undefined
  /** agents that no call should wait for; absent: calls wait for every agent */
  readonly away?: Pick<AwayAgents, 'find'> | undefined
  /** default `monotonicClock` */
  readonly clock?: Clock
}

/** Stand-in for links: a replica without peers. */
const alone: NonNullable<RouterComponents['links']> = {
  candidates: () => [],
  holds: () => false,
  serves: () => false,
  onChange: () => () => undefined,
}

const nobodyAway: SearchComponents['away'] = { find: () => undefined }

/**
 * Finds a tunnel for a call: here if one is idle, else at another holder, else the first to be idle (doc/internals/routing.md).
 */
export class Router {
  readonly #tunnels: TunnelRegistry
  readonly #links: NonNullable<RouterComponents['links']>
  readonly #observer: RouterObserver
  readonly #search: SearchComponents
  readonly #options: SearchOptions

  constructor(components: RouterComponents, options: SearchOptions = defaultSearch) {
    const { tunnels, observer, links = alone, away = nobodyAway, clock = monotonicClock } = components
    this.#tunnels = tunnels
    this.#links = links
    this.#observer = observer
    this.#search = { tunnels, links, away, hedges: createHedges(), clock }
    this.#options = options
  }

  /**
   * Forwards a call through the tunnel it finds.
   *
   * @throws KasError AGENT_NOT_CONNECTED, AGENT_SATURATED, HOLDER_UNREACHABLE, TOO_MANY_WAITING, CALLER_OVER_SHARE, or
   *   the reason of `call.signal`
   */
  forward = async (call: Call): Promise<Reply> => {
    const { clock, hedges } = this.#search
    const began = clock.now()
    hedges.give(hedgesPerCall)
    const offer = this.#tunnels.take(call) ?? (await this.#find(call, began))
    this.#observer.routed('success', (clock.now() - began) / 1000)
    call.observer?.takenBy('peer' in offer ? offer.peer : undefined)
    return offer.forward(call)
  }

  /** True if a pod of the agent serves the method; undefined: no pod is known to be connected. */
  serves(agentId: AgentId, method: string): boolean | undefined {
    const places = [this.#tunnels, this.#links]
    if (places.some((each) => each.serves(agentId, method))) return true
    return places.some((each) => each.holds(agentId)) ? false : undefined
  }

  async #find(call: Call, began: number): Promise<Offer> {
    try {
      return await new TunnelSearch(this.#search, call, this.#options).run()
    } catch (error) {
      this.#observer.routed('aborted', (this.#search.clock.now() - began) / 1000)
      if (!call.signal.aborted) this.#observer.timedOut()
      throw error
    }
  }
}
