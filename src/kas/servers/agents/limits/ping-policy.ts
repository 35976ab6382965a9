/** HTTP/2 error with which a session with too many PINGs ends (RFC 9113, 7). */
export const enhanceYourCalm = 11

/**
 * Shortest time between the PINGs of an idle client. agentk sends one every 5 s. Upstream's bound is 20 s, with which
 * agents take much longer to leave a frozen replica. ms
 */
const minPingIntervalMs = 2500
/** Early PINGs in a row that do no harm; one more ends the connection. */
const maxPingStrikes = 2

/** gRPC's rule against PING floods: a few early PINGs in a row end the connection. */
export class PingPolicy {
  #last = Number.NEGATIVE_INFINITY
  #strikes = 0

  /** @param active - kas has sent data since the last PING: clients measure around data. @returns false: end it */
  accept(now: number, active: boolean): boolean {
    if (active || now - this.#last >= minPingIntervalMs) this.#strikes = 0
    else this.#strikes++
    this.#last = now
    return this.#strikes <= maxPingStrikes
  }
}
