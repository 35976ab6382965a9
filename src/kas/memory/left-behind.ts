import type { Clock } from '../../lib/clock.ts'
import type { Service } from '../../lib/service.ts'
import { collectAll, releaseAll } from '../../lib/v8.ts'

export interface LeftBehindComponents {
  readonly clock: Clock
  /** bytes that are in use, of those of `allocatedBytes` that may become many */
  readonly memory: { readonly bytes: number }
  /** of objects and buffers, dead ones too, as V8 knows them. Default: this process's */
  readonly allocatedBytes?: () => number
  /** collects all garbage. Default: V8's; some 50 ms, beside a heap of 60 MiB */
  readonly collect?: () => void
  /** the same, and gives spare pages back to the system. Default: V8's; some 150 ms */
  readonly release?: () => void
}

const everyMs = 15_000
/** More than a busy replica has between two collections of its own, which come once its heap has grown by half. */
const maxLeftBytes = 48 * 1024 * 1024

/**
 * Collects what nobody holds any more. V8 does so with the garbage that follows, of which a replica at rest makes hardly
 * any: after a tenant had filled a share and left, 180 MiB stayed for longer than a minute (doc/decisions/0036).
 */
export class LeftBehind implements Service {
  readonly #components: Required<LeftBehindComponents>
  /** was there after the last collection, and is in use by something else */
  #kept = Number.POSITIVE_INFINITY
  /** There was a collection in the round before: what lingered then, as connections do that close, is free by now. */
  #isOneMore = false
  #cancel: () => void = () => undefined

  constructor(components: LeftBehindComponents) {
    this.#components = { allocatedBytes: objectsAndBuffers, collect: collectAll, release: releaseAll, ...components }
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
    const isOneMore = this.#isOneMore
    this.#kept = Math.min(this.#kept, this.#uncounted)
    const mostBytes = this.#kept + Math.max(maxLeftBytes, this.#kept / 2)
    if (this.#uncounted <= mostBytes && !isOneMore) return
    if (isOneMore) this.#components.release()
    else this.#components.collect()
    this.#isOneMore = !isOneMore
    this.#kept = this.#uncounted // and less once V8 has freed it, which it does beside what runs
  }

  get #uncounted(): number {
    const { allocatedBytes, memory } = this.#components
    return Math.max(0, allocatedBytes() - memory.bytes)
  }
}

function objectsAndBuffers(): number {
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
