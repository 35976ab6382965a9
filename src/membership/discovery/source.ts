import type { Service } from '../../lib/service.ts'

/** Present knowledge of a source. */
export interface Discovered {
  /** `10.0.0.7:8156`, `[fd00::1]:8156`; sorted, each once */
  readonly addresses: readonly string[]
  /** true: the addresses are of an earlier answer, because the source fails now */
  readonly stale: boolean
  /** true: this source has answered at least once */
  readonly answered: boolean
  /** reason of the present failure; absent: it does not fail */
  readonly error?: string
}

/** Lists addresses of possible members; gossip finds out which of them are alive (doc/operate/discovery.md). */
export interface DiscoverySource extends Service {
  /** `kubernetes`, `dns` or `static`; a label of metrics */
  readonly name: string
  current(): Discovered
  /** Calls `listener` after each change of `current()`, until the returned function is called. */
  onChange(listener: () => void): () => void
}
