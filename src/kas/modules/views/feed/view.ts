import type { Caller } from '../../../../call/caller.ts'
import type { ByteMeter } from '../../../../lib/byte-budget.ts'
import type { KasError } from '../../../../lib/errors.ts'
import type { Impersonation } from '../../../../proto/http/http-message.ts'

/** One view of an agent's cluster for one viewer (doc/guide/views.md). */

/** name of the limit on an agent's WebSockets: graphs are views, too */
export const viewSockets = 'WebSockets for views of this agent'

export interface WantedView {
  /** caller in whose share the view counts */
  readonly caller: Pick<Caller, 'key' | 'userKey'>
  /** the caller's identity in the cluster, from the directory, never from the caller; undefined: the agent itself */
  readonly as: Impersonation | undefined
  /** JSON: a `Query` of proto/views-json.ts, which the agent checks */
  readonly query: Uint8Array
  /** true: permissions that the caller lacked a while ago are asked for again first */
  readonly fresh?: boolean
}

export interface Viewer {
  /** counts the bytes of the viewer's requests; absent: the viewer's HTTP request counts them */
  readonly memory?: ByteMeter
  /**
   * Passes an update on, as the agent wrote it: JSON, if it is one value. Resolves once the viewer has taken it; the
   * next update follows after that. A rejection ends the view.
   */
  update(json: Uint8Array): Promise<void>
  /** Called when the view has ended by itself: no more updates follow. */
  ended(error: KasError): void
}

export interface OpenView {
  /**
   * @param limit - rows of the node's page; 0: closed
   * @param offset - rows before the first; default: none
   * @throws KasError TOO_MANY_STREAMS
   */
  page(node: string, limit: number, offset?: number): void
  /** Begins the view again for the caller's new identity in the cluster. */
  reopen(as: Impersonation | undefined): void
  close(): void
}
