import { KasError } from '../../lib/errors.ts'
import { linkedController } from '../../lib/signals.ts'
import type { Call, Reply } from '../../proto/call.ts'
import type { Tunnel } from '../tunnels/tunnel.ts'
import type { Tunnels } from '../tunnels/tunnels.ts'

/** What the router tells: metrics.ts has one. */
export interface RouterObserver {
  routed(status: 'success' | 'aborted', seconds: number): void
  timedOut(): void
}

export interface RouterOptions {
  /** how long a call waits for its agent. ms; upstream's, which agentk and UI users know */
  readonly findTimeoutMs: number
}

export const defaultRouterOptions: RouterOptions = { findTimeoutMs: 20_000 }

/** Finds the way of a call: an own idle tunnel, else the first that comes (design 4). */
export class Router {
  readonly #tunnels: Tunnels
  readonly #observer: RouterObserver
  readonly #options: RouterOptions

  constructor(components: { tunnels: Tunnels; observer: RouterObserver }, options = defaultRouterOptions) {
    this.#tunnels = components.tunnels
    this.#observer = components.observer
    this.#options = options
  }

  /**
   * @throws KasError AGENT_NOT_CONNECTED, AGENT_SATURATED, TOO_MANY_WAITING, or the reason of `call.signal`
   */
  forward = async (call: Call): Promise<Reply> => {
    const began = performance.now()
    let tunnel = this.#tunnels.take(call.agentId, call.method)
    // one that was lost on its way from the queue to here was not used: wait on
    while (tunnel?.state !== 'taken') tunnel = await this.#wait(call, began)
    this.#observer.routed('success', (performance.now() - began) / 1000)
    return tunnel.forward(call)
  }

  async #wait(call: Call, began: number): Promise<Tunnel> {
    const { findTimeoutMs } = this.#options
    const controller = linkedController(call.signal)
    const timer = setTimeout(() => controller.abort(), began + findTimeoutMs - performance.now())
    try {
      return await this.#tunnels.wait(call.agentId, call.method, controller.signal)
    } catch (error) {
      this.#observer.routed('aborted', (performance.now() - began) / 1000)
      if (call.signal.aborted || error instanceof KasError) throw KasError.from(call.signal.reason ?? error)
      this.#observer.timedOut()
      const code = this.#tunnels.holds(call.agentId) ? 'AGENT_SATURATED' : 'AGENT_NOT_CONNECTED'
      throw new KasError({ code, waitedMs: findTimeoutMs })
    } finally {
      clearTimeout(timer)
      controller.dispose()
    }
  }
}
