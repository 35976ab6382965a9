import type { Clock } from './clock.ts'
import { abortable } from './signals.ts'

/** Lines that wait to be written. The source has its own bound, and reports its losses itself. */
export interface LineSource {
  /** Returns whole lines, each with its end: `maxBytes` or one line; undefined: there are none. */
  take(maxBytes: number): string | undefined
}

/** Receiver of lines. */
export interface LineSink {
  /**
   * Writes `lines` from `from` on, or a part of it, without blocking.
   *
   * @param done - called once, never at once, with the end of the written part. It is less than `from` if the target
   *   has changed in the middle of a line, which then begins again.
   */
  write(lines: Buffer, from: number, done: (to: number, error?: Error) => void): void
  /** Writes as much as is accepted at once, at the end of the process. */
  writeNow(lines: Buffer): void
}

export interface LineWriterComponents {
  readonly source: LineSource
  readonly sink: LineSink
  readonly clock: Clock
  /** called for a failed write, which is repeated */
  readonly onFailed?: (error: Error) => void
}

/** Size of one write. Beside the waiting lines of the source there is no more than that, or one line. bytes */
const batchBytes = 64 * 1024
/** Pause after a failed write. ms */
const retryMs = 1000

/**
 * Takes lines as fast as they can be written, one write at a time: code that has a line never waits. A failed write is
 * repeated from the byte at which it stopped, so that each line is written once and whole.
 */
export class LineWriter {
  readonly #components: LineWriterComponents
  #batch: Buffer | undefined
  #written = 0
  /** True while it waits for a turn of the event loop, for a write, or for the next attempt. */
  #isBusy = false
  #cancel: (() => void) | undefined
  #drained: PromiseWithResolvers<void> | undefined

  constructor(components: LineWriterComponents) {
    this.#components = components
  }

  /** The source has a line: it is written with the lines of the same turn. */
  wake(): void {
    if (this.#isBusy) return
    this.#isBusy = true
    setImmediate(this.#next)
  }

  /** @returns true once all is written; false: `patience` aborted before */
  async flush(patience: AbortSignal): Promise<boolean> {
    this.wake()
    this.#drained ??= Promise.withResolvers()
    const drained = this.#drained.promise.then(() => true)
    return await abortable(drained, patience).catch(() => false)
  }

  /**
   * The process ends: writes the waiting lines as far as they are accepted at once. A write that runs is left to end.
   */
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
