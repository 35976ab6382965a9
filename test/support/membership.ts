import { Registry } from 'prom-client'
import { systemClock } from '../../src/lib/clock.ts'
import { createLogger } from '../../src/lib/log.ts'
import { Membership, type MembershipComponents, type MembershipOptions } from '../../src/membership/membership.ts'

export const secret = Buffer.alloc(32, 7)

/** Creates a membership on a free port of this machine, without discovery; it has not been started. */
export function createMembership(
  options: Pick<MembershipOptions, 'name'> & Partial<MembershipOptions>,
  components: Partial<MembershipComponents> = {},
): Membership {
  return new Membership(
    { log: createLogger({ level: 'silent' }), clock: systemClock, sources: [], metrics: new Registry(), ...components },
    {
      secret,
      listen: { host: '127.0.0.1', port: 0 },
      replica: { port: 8155 },
      publicKeyHash: 'ab'.repeat(32),
      kasVersion: '0.1.0',
      ...options,
    },
  )
}
