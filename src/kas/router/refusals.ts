import type { Clock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import type { Race, RequestOffer } from './race.ts'

/**
 * How long a call that one holder refused waits at the other holders, where its caller may have fewer tunnels. Longer
 * than a holder takes to recall a watch. ms
 */
const refusedMs = 2000

/**
 * Collects refusals by holders where the caller has more than its share of the tunnels, while other holders are asked.
 */
export class Refusals {
  readonly #race: Race
  readonly #clock: Clock
  #worst: KasError | undefined
  #mostTunnels = 0
  #cancel: (() => void) | undefined

  constructor(race: Race, clock: Clock) {
    this.#race = race
    this.#clock = clock
  }

  /** Refusal by the holder where the caller has most tunnels; undefined: no holder has refused. */
  get worst(): KasError | undefined {
    return this.#worst
  }

  /** Wraps a request: a refusal counts as `none`. */
  among(request: RequestOffer): RequestOffer {
    return async (cancellation) => {
      try {
        return await request(cancellation)
      } catch (error) {
        if (!(error instanceof KasError) || error.spec.code !== 'CALLER_OVER_SHARE') throw error
        const { held: tunnels } = error.spec
        if (tunnels >= this.#mostTunnels) this.#worst = error
        this.#mostTunnels = Math.max(tunnels, this.#mostTunnels)
        return 'none'
      }
    }
  }

  /**
   * Fails the race if a holder has refused: at once, or after `refusedMs` while another holder may still offer.
   *
   * @param mayGive - another holder has not answered
   */
  check(mayGive: boolean): void {
    if (!this.#worst) return
    if (!mayGive) this.#race.fail(this.#worst)
    else this.#cancel ??= this.#clock.after(refusedMs, () => this.#race.fail(this.#worst))
  }

  stop(): void {
    this.#cancel?.()
  }
}
