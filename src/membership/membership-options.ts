import type { Clock } from '../lib/clock.ts'
import type { Logger } from '../lib/log.ts'
import type { Registry } from '../lib/metrics.ts'
import type { DiscoverySource } from './discovery/source.ts'
import type { Gossip, GossipNetwork } from './network/gossip.ts'
import type { MembershipTimers } from './protocol/timers.ts'
import type { RowHead } from './table/row.ts'

export interface MembershipComponents {
  readonly log: Logger
  readonly clock: Clock
  /** sources, which the membership starts and stops */
  readonly sources: readonly DiscoverySource[]
  readonly metrics: Registry
  /** 0 to 1; default Math.random */
  random?(): number
  /** creates the carrier of gossip and rows; default libp2p */
  createGossip?(...args: ConstructorParameters<typeof Gossip>): GossipNetwork
}

export interface MembershipOptions {
  /** name that survives restarts: letters, digits, `.`, `_`, `-` */
  readonly name: string
  readonly secret: Uint8Array
  /** secret that is accepted too, while the secret is being changed */
  readonly previousSecret?: Uint8Array | undefined
  /** address for gossip; port 0: any */
  readonly listen: { readonly host?: string; readonly port: number }
  /** address of the server `replicas` for peers; without a host, the one from which they see this replica */
  readonly replica: { readonly host?: string; readonly port: number }
  /** SHA-256 of the certificate's public key (SubjectPublicKeyInfo, DER), hex */
  readonly publicKeyHash: string
  readonly agentAddress?: string | undefined
  readonly kasVersion: string
  /** default `defaultTimers` */
  readonly timers?: Partial<MembershipTimers>
}

/**
 * Head of a replica that starts.
 *
 * @param now - ms since 1970
 */
export function firstHead(options: MembershipOptions, now: number): RowHead {
  const { name, replica, listen, publicKeyHash, kasVersion, agentAddress } = options
  return {
    name,
    state: 'joining',
    replicaHost: replica.host,
    replicaPort: replica.port,
    publicKeyHash,
    agentAddress,
    kasVersion,
    startedAt: now,
    gossipPort: listen.port,
  }
}
