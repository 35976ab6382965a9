import { Identities, type IdentitiesOptions } from '../../src/agentk/cluster/identities.ts'
import { accountIdentity, impersonationHeaders } from '../../src/agentk/cluster/impersonation-headers.ts'
import { mayImpersonateNobody } from '../../src/agentk/cluster/may-impersonate.ts'
import { capturedLog } from './captured-log.ts'

/** agentk's decision with its default flags, or others. */
export function identities({ may = mayImpersonateNobody, own }: Partial<IdentitiesOptions> = {}): Identities {
  return new Identities(capturedLog(), { may, own })
}

/** Accepts every identity, for tests of other parts. */
export const anyIdentity: Pick<Identities, 'headers' | 'accountHeaders'> = {
  headers: (sent) => impersonationHeaders(undefined, sent, []),
  accountHeaders: (account) => impersonationHeaders(undefined, account && accountIdentity(account), []),
}
