import type { Service } from '../../lib/service.ts'

/** What a source knows at this moment. */
export interface Discovered {
  /** `10.0.0.7:8156`, `[fd00::1]:8156`; sorted, each once */
  readonly addresses: readonly string[]
  /** the addresses are an earlier answer: the source fails at present */
  readonly stale: boolean
  /** whether this source has ever answered */
  readonly answered: boolean
  /** why it fails, while it does */
  readonly error?: string
}

/** Says who may be there; whether they are is for the gossip to find out (doc/discovery.md). */
export interface DiscoverySource extends Service {
  /** `kubernetes`, `dns` or `static`; a label of metrics */
  readonly name: string
  current(): Discovered
  /** Calls `listener` after each change of `current()`, until the returned function is called. */
  onChange(listener: () => void): () => void
}
