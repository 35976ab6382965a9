import { create } from '@bufbuild/protobuf'
import type { Clock } from '../../../lib/clock.ts'
import type { Service } from '../../../lib/service.ts'
import { CallCountsResponseSchema, Limits } from '../../../proto/gen/replica_limits_pb.ts'
import { type UnaryMethods, unaryService } from '../../../proto/unary.ts'
import type { Peers } from '../../replicas/peers.ts'
import type { CallCounts } from './call-counts.ts'

export interface CallCountReportsComponents {
  readonly counts: Pick<CallCounts, 'news' | 'hear'>
  readonly peers: Pick<Peers, 'broadcast'>
  /** of this replica */
  readonly name: string
  readonly clock: Clock
}

export interface CallCountReportsOptions {
  readonly callsPerTokenPerMinute: number
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

  constructor(components: CallCountReportsComponents, options: CallCountReportsOptions) {
    this.#components = components
    this.#from = Math.ceil(options.callsPerTokenPerMinute * toldShare)
  }

  /** What the others call. */
  get replicaMethods(): UnaryMethods {
    return unaryService(Limits, {
      callCounts: async ({ name, minute, count }) => {
        const calls = count.map(({ tokenHash, calls }) => [Buffer.from(tokenHash).toString('base64'), calls] as const)
        this.#components.counts.hear(name, { minute: Number(minute), counts: new Map(calls) })
        return create(CallCountsResponseSchema)
      },
    })
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
    const { counts, peers, name } = this.#components
    const news = counts.news(this.#from)
    if (news) {
      const count = Array.from(news.counts, ([hash, calls]) => ({ tokenHash: Buffer.from(hash, 'base64'), calls }))
      await peers.broadcast(Limits.method.callCounts, { name, minute: BigInt(news.minute), count })
    }
    this.#plan()
  }
}
