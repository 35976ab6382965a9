import type { PublishLimit } from '../table/agent-share.ts'

/**
 * Why something of a peer was not taken. `author`: a message about another's row; `malformed`: out of bounds, or no
 * message at all; `rate`: more than an honest replica sends; `row`: a pulled row that is not its owner's, cut short or too large;
 * `pending`: too many connections from one address that have not proven to know the secret; `handshake`: one that did
 * not; `banned`: an instance that flooded.
 */
export const refusals = ['author', 'malformed', 'oversized', 'rate', 'row', 'pending', 'handshake', 'banned'] as const
export type Refusal = (typeof refusals)[number]

/**
 * What keeps something of an agent from being published, at least for now. `share`: the agent has more here than it
 * may; `row`: all agents together have; `rate`: the agent changes more than it may.
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
