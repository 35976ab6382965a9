import type { Clock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import type { Race, RequestOffer } from './race.ts'

/**
 * A call that one holder has refused waits so long at the others, where its caller may hold little: more than it takes them to
 * recall a watch. ms
 */
const refusedMs = 2000

/** Holders that refuse a call, because its caller holds more than his share of their tunnels, while others are asked. */
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

  /** Of those who have refused it, by whom its caller has most. */
  get worst(): KasError | undefined {
    return this.#worst
  }

  /** The same request: a refusal is no offer. */
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

  /** @param mayGive - another holder has not answered */
  check(mayGive: boolean): void {
    if (!this.#worst) return
    if (!mayGive) this.#race.fail(this.#worst)
    else this.#cancel ??= this.#clock.after(refusedMs, () => this.#race.fail(this.#worst))
  }

  stop(): void {
    this.#cancel?.()
  }
}
