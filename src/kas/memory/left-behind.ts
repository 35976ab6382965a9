import type { Clock } from '../../lib/clock.ts'
import type { Service } from '../../lib/service.ts'
import { collectAll } from '../../lib/v8.ts'

export interface LeftBehindComponents {
  readonly clock: Clock
  /** bytes that are in use, of those of `externalBytes` that may become many */
  readonly memory: { readonly bytes: number }
  /** of buffers, as V8 knows them. Default: this process's */
  readonly externalBytes?: () => number
  /** collects all garbage. Default: V8's; some 50 ms, beside a heap of 100 MiB */
  readonly collect?: () => void
}

const everyMs = 15_000
/** More than a busy replica has between two collections of its own. */
const maxLeftBytes = 48 * 1024 * 1024

/**
 * Collects buffers that nobody holds any more. V8 does so with the garbage that follows, of which a replica at rest makes
 * hardly any: after a tenant had filled a share and left, 180 MiB stayed for longer than a minute (doc/decisions/0036).
 */
export class LeftBehind implements Service {
  readonly #components: Required<LeftBehindComponents>
  /** was there after the last collection, and is in use by something else */
  #kept = Number.POSITIVE_INFINITY
  #cancel: () => void = () => undefined

  constructor(components: LeftBehindComponents) {
    const externalBytes = () => process.memoryUsage().external
    this.#components = { externalBytes, collect: collectAll, ...components }
  }

  async start(): Promise<void> {
    this.#kept = this.#uncounted
    this.#again()
  }

  async stop(): Promise<void> {
    this.#cancel()
  }

  #again(): void {
    this.#cancel = this.#components.clock.after(everyMs, () => {
      this.#check()
      this.#again()
    })
  }

  #check(): void {
    this.#kept = Math.min(this.#kept, this.#uncounted)
    if (this.#uncounted - this.#kept <= maxLeftBytes) return
    this.#components.collect()
    this.#kept = this.#uncounted // and less once V8 has freed it, which it does beside what runs
  }

  get #uncounted(): number {
    const { externalBytes, memory } = this.#components
    return Math.max(0, externalBytes() - memory.bytes)
  }
}
