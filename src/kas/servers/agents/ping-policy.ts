/**
 * Shortest time between the PINGs of a quiet client: our agentk is told to ping every 5 s. ms. Upstream takes 20 s,
 * which costs a frozen replica's agents so much longer to leave it.
 */
const minIntervalMs = 2500
const maxStrikes = 2

/** gRPC's rule against PING floods: a few too early in a row end the connection. */
export class PingPolicy {
  #last = Number.NEGATIVE_INFINITY
  #strikes = 0

  /** @param active - we sent something since the last PING: clients measure the connection around data */
  accept(now: number, active: boolean): boolean {
    if (active || now - this.#last >= minIntervalMs) this.#strikes = 0
    else this.#strikes++
    this.#last = now
    return this.#strikes <= maxStrikes
  }
}
