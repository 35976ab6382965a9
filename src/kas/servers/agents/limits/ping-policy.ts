/** The HTTP/2 error by which a session ends then (RFC 9113, 7). */
export const enhanceYourCalm = 11

/**
 * Shortest time between the PINGs of a quiet client: our agentk pings every 5 s. ms. Upstream takes 20 s,
 * which costs a frozen replica's agents so much longer to leave it.
 */
const minPingIntervalMs = 2500
const maxPingStrikes = 2

/** gRPC's rule against PING floods: a few too early in a row end the connection. */
export class PingPolicy {
  #last = Number.NEGATIVE_INFINITY
  #strikes = 0

  /** @param active - kas has sent something since the last PING: clients measure the connection around data */
  accept(now: number, active: boolean): boolean {
    if (active || now - this.#last >= minPingIntervalMs) this.#strikes = 0
    else this.#strikes++
    this.#last = now
    return this.#strikes <= maxPingStrikes
  }
}
