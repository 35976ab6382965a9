import type { HeldBack } from '../table/agent-share.ts'

/**
 * Why something of a peer was not taken. `author`: a message about another's row; `malformed`: out of bounds, or no
 * message at all; `rate`: more than an honest replica sends; `row`: a pulled row that is not its owner's, cut short or too large;
 * `pending`: too many connections from one address that have not proven to know the secret; `handshake`: one that did
 * not; `banned`: an instance that flooded.
 */
export const refusals = ['author', 'malformed', 'oversized', 'rate', 'row', 'pending', 'handshake', 'banned'] as const
export type Refusal = (typeof refusals)[number]

/**
 * Why something of an agent is not published, at least for now. `share`: the agent has more here than it
 * may; `row`: too many agents have; `rate`: the agent changes more than it may.
 */
export const holdBacks: readonly HeldBack[] = ['share', 'row', 'rate']

export const messageKinds = ['delta', 'heartbeat', 'farewell', 'unknown'] as const
export type MessageKind = (typeof messageKinds)[number]

export interface MembershipMetrics {
  refused(reason: Refusal): void
  published(kind: MessageKind): void
  received(kind: MessageKind): void
  pulled(result: 'ok' | 'failed'): void
  heldBack(reason: HeldBack): void
}
