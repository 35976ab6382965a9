import type { PublishLimit } from '../table/agent-share.ts'

/**
 * Reasons for refusals of a peer's data or connection:
 * - `author`: a message about another instance's row
 * - `malformed`: out of bounds, or no message at all
 * - `rate`: more than an honest replica sends
 * - `row`: a pulled row that is not its owner's, cut short or too large
 * - `pending`: too many connections from one address that have not proven to have the secret
 * - `handshake`: a connection that did not prove it
 * - `banned`: an instance that flooded
 */
export const refusals = ['author', 'malformed', 'oversized', 'rate', 'row', 'pending', 'handshake', 'banned'] as const
export type Refusal = (typeof refusals)[number]

/**
 * Reasons why data of an agent is not published, at least for now. `share`: the agent has more here than allowed;
 * `row`: all agents together have; `rate`: the agent changes its data too often.
 */
export const publishLimits: readonly PublishLimit[] = ['share', 'row', 'rate']

export const messageKinds = ['delta', 'heartbeat', 'farewell', 'unknown'] as const
export type MessageKind = (typeof messageKinds)[number]

export interface MembershipMetrics {
  refused(reason: Refusal): void
  published(kind: MessageKind): void
  received(kind: MessageKind): void
  pulled(result: 'ok' | 'failed'): void
  publishLimited(limit: PublishLimit): void
}
