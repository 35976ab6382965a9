import type { Call, Reply } from './call.ts'

/**
 * Of a candidate that offers no tunnel. `none`: it has none, or cannot be asked; `unanswered`: the question or its answer
 * was lost, or a peer does not know us yet, and it may be asked again.
 */
export type NoOffer = 'none' | 'unanswered'

/** A tunnel that waits for one call: its owner either uses it or gives it back. */
export interface Offer {
  /** name of the replica whose it is; absent: of this one */
  readonly peer?: string
  /** carries the call that the offer was made for */
  forward(call: Call): Reply
  /** unused: it goes to the next that waits */
  giveBack(): void
}
