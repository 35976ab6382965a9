import { create } from '@bufbuild/protobuf'
import type { Clock } from '../../../../lib/clock.ts'
import type { Service } from '../../../../lib/service.ts'
import { CallCountsResponseSchema, Limits } from '../../../../proto/gen/replica_limits_pb.ts'
import { type UnaryMethods, unaryService } from '../../../../proto/unary.ts'
import type { Peers } from '../../../peers/peers.ts'
import type { TokenCallCounts } from './token-call-counts.ts'

export interface TokenCallReportsComponents {
  readonly counts: Pick<TokenCallCounts, 'changes' | 'merge'>
  readonly peers: Pick<Peers, 'broadcast'>
  /** name of this replica */
  readonly name: string
  readonly clock: Clock
}

/** Pause from the end of one report to the next. ms */
const periodMs = 2000
/** Tokens below this share of the limit are not reported: the limit is inexact by this share for each replica. */
const reportedShare = 1 / 50

/**
 * Broadcasts the call counts of busy tokens, so that a token's limit holds over all replicas
 * (doc/reference/tunnel-protocol.md 4.1 no. 5). The limit is approximate, and applies to each replica alone while it
 * reaches no peer.
 */
export class TokenCallReports implements Service {
  readonly #components: TokenCallReportsComponents
  /** calls of a token in a minute from which it is reported */
  readonly #from: number
  #cancel: (() => void) | undefined
  #stopped = false

  constructor(components: TokenCallReportsComponents, options: { readonly callsPerTokenPerMinute: number }) {
    this.#components = components
    this.#from = Math.ceil(options.callsPerTokenPerMinute * reportedShare)
  }

  /** Methods that peers call. */
  get replicaMethods(): UnaryMethods {
    return unaryService(Limits, {
      callCounts: async ({ name, minute, count }) => {
        const calls = count.map(({ tokenHash, calls }) => [Buffer.from(tokenHash).toString('base64'), calls] as const)
        this.#components.counts.merge(name, { minute: Number(minute), counts: new Map(calls) })
        return create(CallCountsResponseSchema)
      },
    })
  }

  async start(): Promise<void> {
    this.#schedule()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancel?.()
  }

  #schedule(): void {
    if (!this.#stopped) this.#cancel = this.#components.clock.after(periodMs, () => void this.#broadcast())
  }

  async #broadcast(): Promise<void> {
    const { counts, peers, name } = this.#components
    const changes = counts.changes(this.#from)
    if (changes) {
      const count = Array.from(changes.counts, ([hash, calls]) => ({ tokenHash: Buffer.from(hash, 'base64'), calls }))
      await peers.broadcast(Limits.method.callCounts, { name, minute: BigInt(changes.minute), count })
    }
    this.#schedule()
  }
}
