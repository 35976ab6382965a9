import type { MembershipOptions } from './membership-options.ts'
import type { RowHead } from './table/row.ts'

/** Of a replica that starts. @param now - ms since 1970 */
export function firstHead(options: MembershipOptions, now: number): RowHead {
  const { name, replica, listen, publicKeyHash, kasVersion, agentAddress } = options
  return {
    name,
    state: 'joining',
    replicaPort: replica.port,
    publicKeyHash,
    kasVersion,
    startedAt: now,
    gossipPort: listen.port,
    ...(replica.host !== undefined && { replicaHost: replica.host }),
    ...(agentAddress !== undefined && { agentAddress }),
  }
}
