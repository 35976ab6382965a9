import { KasError } from '../../lib/errors.ts'
import { Turns } from '../../lib/turns.ts'

export interface ProcessLimitOptions {
  /** works at once */
  readonly maxRunning: number
  /** of one source; default: all of them */
  readonly maxRunningOfSource?: number
  readonly maxWaiting: number
}

/** So many of the given works run at once; others wait for it, and their sources take turns. */
export class ProcessLimit {
  readonly #turns: Turns<unknown>

  constructor(options: ProcessLimitOptions) {
    const detail = `more than ${options.maxWaiting} wait for a git process`
    const tooMany = () => new KasError({ code: 'REPOSITORY_FAILED', detail })
    this.#turns = new Turns({ ...options, tooMany })
  }

  /**
   * @param how.source - on whose behalf; where places to wait are scarce, sources share them
   * @param how.signal - ends the wait, not the work
   * @throws KasError REPOSITORY_FAILED when too many wait; the signal's reason; what `work` throws
   */
  async run<T>(work: () => Promise<T>, how: { readonly source: unknown; readonly signal: AbortSignal }): Promise<T> {
    const end = await this.#turns.take(how.source, how.signal)
    try {
      return await work()
    } finally {
      end()
    }
  }
}
