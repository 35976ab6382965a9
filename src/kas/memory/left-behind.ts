import type { Clock } from '../../lib/clock.ts'
import type { Service } from '../../lib/service.ts'
import { collectAll, releaseAll } from '../../lib/v8.ts'

export interface LeftBehindComponents {
  readonly clock: Clock
  /** counted bytes in use, which are a part of `allocatedBytes` and may become many */
  readonly memory: { readonly bytes: number }
  /** bytes of objects and buffers, also of dead ones, by V8's count. Default: this process's */
  readonly allocatedBytes?: () => number
  /** collects all garbage. Default: V8's; some 50 ms with a heap of 60 MiB */
  readonly collect?: () => void
  /** collects all garbage, and gives spare pages back to the system. Default: V8's; some 150 ms */
  readonly release?: () => void
}

const everyMs = 15_000
/**
 * Bound above the garbage of a busy replica between two collections of its own, which come once its heap has grown by
 * half.
 */
const maxLeftBytes = 48 * 1024 * 1024

/**
 * Collects garbage that V8 leaves. V8 collects it with later garbage, of which an idle replica makes hardly any. After
 * a tenant had filled a share and left, 180 MiB stayed for longer than a minute (doc/decisions/0036).
 */
export class LeftBehind implements Service {
  readonly #components: Required<LeftBehindComponents>
  /** bytes after the last collection that other parts use */
  #kept = Number.POSITIVE_INFINITY
  /**
   * True if the last round collected. Objects that were still in use then, such as closing connections, are free by
   * now.
   */
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
    this.#kept = this.#uncounted // an upper bound, since V8 frees memory beside running code
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
