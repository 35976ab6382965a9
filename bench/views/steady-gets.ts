import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import type { Target } from '../hop/load.ts'
import { machineTime } from '../support/machine-time.ts'
import { percentile } from '../support/percentile.ts'

/** interval of GETs; a longer GET delays the next. ms */
const everyMs = 10

/** Makes GETs one after another, from now on. */
export class SteadyGets {
  readonly #pool: Pool
  readonly #target: Target
  readonly #done: { readonly at: number; readonly ms: number }[] = []
  readonly #running: Promise<void>
  #isOver = false

  constructor(target: Target) {
    this.#target = target
    this.#pool = new Pool(target.origin, { connections: 1 })
    this.#running = this.#run()
    this.#running.catch(() => undefined) // awaited by `stop`
  }

  /** @throws Error if one has failed */
  async stop(): Promise<void> {
    this.#isOver = true
    await this.#running
    await this.#pool.destroy()
  }

  /** Percentiles of the GETs that ended between two times of the machine's clock. ms */
  percentiles(from: number, to: number): { p50: number; p99: number } {
    const times = this.#done.filter(({ at }) => at >= from && at < to).map(({ ms }) => ms)
    return { p50: percentile(times, 0.5), p99: percentile(times, 0.99) }
  }

  async #run(): Promise<void> {
    const { path, headers } = this.#target
    while (!this.#isOver) {
      const begun = machineTime()
      const { statusCode, body } = await this.#pool.request({ path, method: 'GET', headers })
      await body.dump()
      if (statusCode !== 200) throw new Error(`${path}: ${statusCode}`)
      const at = machineTime()
      this.#done.push({ at, ms: at - begun })
      await sleep(Math.max(0, everyMs - (at - begun)))
    }
  }
}
