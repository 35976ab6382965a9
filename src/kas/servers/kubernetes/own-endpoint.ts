import { KasError } from '../../../lib/errors.ts'
import type { Target } from './request/target.ts'

/** What kas answers by itself: a token for a WebSocket, and watches over one (doc/reference/tunnel-protocol.md 6.8). */
export type OwnEndpoint = 'token' | 'watch'

/**
 * Undefined: the request is for the cluster.
 *
 * `graph` is not served: neither name nor messages of the call to agentk are known, and clients do without it when they
 * get 404 (doc/reference/gitlab-contract.md 9.4 no. 38).
 *
 * @param isOn - there is a secret for tokens; without it both are not found
 * (doc/reference/gitlab-contract.md 9.3 no. 25)
 * @throws KasError NOT_SERVED, METHOD_NOT_ALLOWED
 */
export function ownEndpoint(
  method: string,
  { path, wantsToken }: Pick<Target, 'path' | 'wantsToken'>,
  isOn: boolean,
): OwnEndpoint | undefined {
  if (path === '/graph') throw new KasError({ code: 'NOT_SERVED', what: 'this version has no graph API' })
  if (path !== '/watch' && !wantsToken) return undefined
  if (!isOn) throw new KasError({ code: 'NOT_SERVED', what: 'the watch API is off' })
  if (method !== 'GET') throw new KasError({ code: 'METHOD_NOT_ALLOWED', method, allowed: 'GET, OPTIONS' })
  return wantsToken ? 'token' : 'watch'
}
