import type { AgentId } from '../../../call/call.ts'
import type { Impersonation } from '../../../proto/http/http-message.ts'

/** A path of 8154 that kas answers by itself, of a caller who may use the agent that it names. */
export interface OwnEndpoint {
  /** below the prefix: `/gitops/state` */
  readonly path: string
  /** others: METHOD_NOT_ALLOWED */
  readonly methods: readonly string[]
  /** @throws KasError, which is answered as everywhere */
  serve(request: OwnRequest): Promise<OwnAnswer>
}

export interface OwnRequest {
  readonly agentId: AgentId
  /** as whom the caller acts in the cluster; undefined: as the agent itself */
  readonly impersonation: Impersonation | undefined
  readonly method: string
  /** decoded, without what is meant for kas */
  readonly query: ReadonlyMap<string, readonly string[]>
  /** read once; throws MESSAGE_TOO_LARGE, or the reason of `signal` */
  readonly body: AsyncIterable<Uint8Array>
  /** the caller has left, or may no longer */
  readonly signal: AbortSignal
}

export interface OwnAnswer {
  readonly status: number
  readonly mediaType: string
  readonly body: Uint8Array
}
