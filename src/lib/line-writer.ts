import type { Clock } from './clock.ts'
import { abortable } from './signals.ts'

/** What waits to be written. It has a bound of its own, and says itself what was lost by it. */
export interface LineSource {
  /** Whole lines, each with its end, of `maxBytes` or one line; undefined: there are none. */
  take(maxBytes: number): string | undefined
}

/** Where lines go. */
export interface LineSink {
  /**
   * Writes what stands in `lines` from `from` on, or some of it, without holding anything up.
   *
   * @param done - called once, never at once, with how far of `lines` is written: where the place of the lines was
   * changed in the middle of one, to be begun again, that is less than `from`
   */
  write(lines: Buffer, from: number, done: (to: number, error?: Error) => void): void
  /** At the end of the process: as much as is taken at once. */
  writeNow(lines: Buffer): void
}

export interface LineWriterComponents {
  readonly source: LineSource
  readonly sink: LineSink
  readonly clock: Clock
  /** It could not be written, and is tried again. */
  readonly onFailed?: (error: Error) => void
}

/** At once. Beside what waits in the source there is no more than that, or one line. bytes */
const batchBytes = 64 * 1024
/** After one that failed. ms */
const retryMs = 1000

/**
 * Takes lines as fast as they can be written, one write at a time: whoever has a line to write never waits. What could not be
 * written is tried again from the byte at which it stopped, so that each line is there once and whole.
 */
export class LineWriter {
  readonly #components: LineWriterComponents
  #batch: Buffer | undefined
  #written = 0
  /** a turn of the event loop is waited for, a write, or the next try */
  #isBusy = false
  #cancel: (() => void) | undefined
  #drained: PromiseWithResolvers<void> | undefined

  constructor(components: LineWriterComponents) {
    this.#components = components
  }

  /** The source has a line: it is written with those that come in the same turn. */
  wake(): void {
    if (this.#isBusy) return
    this.#isBusy = true
    setImmediate(this.#next)
  }

  /** @returns true once all is written; false: `patience` has aborted before */
  async flush(patience: AbortSignal): Promise<boolean> {
    this.wake()
    this.#drained ??= Promise.withResolvers()
    const drained = this.#drained.promise.then(() => true)
    return await abortable(drained, patience).catch(() => false)
  }

  /** The process ends: what waits is written as far as it is taken at once, what is being written is left to that. */
  flushNow(): void {
    const { source, sink } = this.#components
    this.#cancel?.()
    if (this.#batch && this.#cancel) sink.writeNow(this.#batch.subarray(this.#written))
    for (let lines = source.take(batchBytes); lines !== undefined; lines = source.take(batchBytes))
      sink.writeNow(Buffer.from(lines))
  }

  #next = (): void => {
    this.#cancel = undefined
    const { source, sink } = this.#components
    if (!this.#batch) {
      const lines = source.take(batchBytes)
      if (lines === undefined) {
        this.#isBusy = false
        this.#drained?.resolve()
        this.#drained = undefined
        return
      }
      this.#batch = Buffer.from(lines)
      this.#written = 0
    }
    sink.write(this.#batch, this.#written, this.#wrote)
  }

  #wrote = (to: number, error?: Error): void => {
    this.#written = to
    if (this.#batch && to >= this.#batch.length) this.#batch = undefined
    const { onFailed, clock } = this.#components
    if (!error) this.#next()
    else {
      onFailed?.(error)
      this.#cancel = clock.after(retryMs, this.#next)
    }
  }
}
