import type { Call, Reply } from './call.ts'

/** A tunnel that waits for one call: its owner either uses it or gives it back. */
export interface Offer {
  /** carries the call that the offer was made for */
  forward(call: Call): Reply
  /** unused: it goes to the next that waits */
  giveBack(): void
}
