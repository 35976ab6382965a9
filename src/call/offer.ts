import type { Call, Reply } from './call.ts'

/**
 * Reason why a candidate offers no tunnel. `none`: it has none, or cannot be asked. `unanswered`: the question or its
 * answer was lost, or a peer does not know this replica yet; the candidate may be asked again.
 */
export type NoOffer = 'none' | 'unanswered'

/** A tunnel that waits for one call: its owner either uses it or gives it back. */
export interface Offer {
  /** name of the replica that has the tunnel; absent: this replica */
  readonly peer?: string
  /** carries the call that the offer was made for */
  forward(call: Call): Reply
  /** Returns the unused tunnel, which goes to the next call that waits. */
  giveBack(): void
}
