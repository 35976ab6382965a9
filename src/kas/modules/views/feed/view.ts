import type { Caller } from '../../../../call/caller.ts'
import type { ByteMeter } from '../../../../lib/byte-budget.ts'
import type { KasError } from '../../../../lib/errors.ts'
import type { Impersonation } from '../../../../proto/http/http-message.ts'

/** One view that an agent shows of its cluster, to one viewer (doc/views.md). */

/** what an agent has too many of: graphs are views, too */
export const viewSockets = 'WebSockets for views of this agent'

export interface WantedView {
  /** whose share it counts in */
  readonly caller: Pick<Caller, 'key' | 'userKey'>
  /** as whom the caller sees the cluster: of the directory, never of the caller's words; undefined: as the agent itself */
  readonly as: Impersonation | undefined
  /** JSON: a `Query` of proto/views-json.ts, which the agent checks */
  readonly query: Uint8Array
  /** what the caller was denied a while ago is asked anew first */
  readonly fresh?: boolean
}

export interface Viewer {
  /** counts what is kept of what the viewer asks for; absent: its request counts that */
  readonly memory?: ByteMeter
  /**
   * An update, as the agent wrote it: JSON, if it is one value. Resolves once the viewer has taken it; the next comes
   * after that. What it rejects with ends the view.
   */
  update(json: Uint8Array): Promise<void>
  /** The view has ended by itself: nothing comes any more. */
  ended(error: KasError): void
}

export interface OpenView {
  /**
   * @param limit - rows of the node's page; 0: closed
   * @param offset - rows before the first; default: none
   * @throws KasError TOO_MANY_STREAMS
   */
  page(node: string, limit: number, offset?: number): void
  /** The caller is somebody else in the cluster from now on: the view begins anew. */
  reopen(as: Impersonation | undefined): void
  close(): void
}
