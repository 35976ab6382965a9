import type { Clock } from '../../../lib/clock.ts'
import type { Service } from '../../../lib/service.ts'
import type { CallCounts, MinuteCounts } from './call-counts.ts'

export interface CallCountReportsComponents {
  readonly counts: Pick<CallCounts, 'news'>
  /** tells the other replicas; never rejects */
  readonly tell: (news: MinuteCounts) => Promise<void>
  readonly clock: Clock
}

/** from the end of one telling to the next. ms */
const periodMs = 2000
/** Tokens below this share of the limit are not worth telling of: the limit is approximate by it, for each replica. */
const toldShare = 1 / 50

/**
 * Tells the other replicas how often busy tokens began calls here, so that the limit of a token holds over all of them
 * (doc/reference/tunnel-protocol.md 4.1 no. 5): approximately, and each replica by itself where the others cannot be
 * reached.
 */
export class CallCountReports implements Service {
  readonly #components: CallCountReportsComponents
  readonly #from: number
  #cancel: (() => void) | undefined
  #stopped = false

  constructor(components: CallCountReportsComponents, options: { readonly callsPerTokenPerMinute: number }) {
    this.#components = components
    this.#from = Math.ceil(options.callsPerTokenPerMinute * toldShare)
  }

  async start(): Promise<void> {
    this.#plan()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancel?.()
  }

  #plan(): void {
    if (!this.#stopped) this.#cancel = this.#components.clock.after(periodMs, () => void this.#tell())
  }

  async #tell(): Promise<void> {
    const news = this.#components.counts.news(this.#from)
    if (news) await this.#components.tell(news)
    this.#plan()
  }
}
