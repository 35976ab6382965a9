import type { Endpoint } from '../../../command/endpoint.ts'
import { lastingReason, noticeMs } from '../../../command/reach/unreached.ts'
import { waitReason } from '../../../command/reach/wait-reason.ts'
import type { ShownView } from './shown-view.ts'

/** From one check of the reason to the next, in ms. */
const againMs = 5000
/** reported reasons that are remembered */
const maxReasons = 100

/** Reports the reason for which there is no whole answer: after a second, and whenever it changes. */
export class ViewWait {
  readonly #endpoint: Endpoint
  readonly #say: (text: string) => void
  readonly #reasons = new Set<string>()
  #shown: ShownView | undefined
  /** reason for which the view was lost */
  #lostBy: string | undefined
  #isOpen = false
  #isWhole = false
  #isEnded = false
  /** a second has passed without a whole answer */
  #isLate = false
  #listingAt = Number.NEGATIVE_INFINITY
  /** cancels the next check; undefined: there is nothing to wait for */
  #cancel: (() => void) | undefined

  constructor(endpoint: Endpoint, say: (text: string) => void) {
    this.#endpoint = endpoint
    this.#say = say
  }

  start(): void {
    this.#cancel ??= this.#after(noticeMs)
  }

  end(): void {
    this.#isEnded = true
    this.#rest()
  }

  updated(shown: ShownView, isWhole: boolean): void {
    this.#shown = shown
    this.#isOpen = true
    this.#lostBy = undefined
    this.#isWhole = isWhole
    if (isWhole) {
      this.#reasons.clear() // a reason that comes again is reported again
      this.#rest()
    } else if (this.#isLate) this.#sayListing()
    else this.start()
  }

  /** Reports that the view was lost, and is opened again. */
  lost(reason: string): void {
    this.#isOpen = false
    this.#isWhole = false
    this.#lostBy = reason
    this.#sayOnce(reason)
    this.start()
  }

  #after(ms: number): () => void {
    return this.#endpoint.clock.after(ms, () => void this.#check())
  }

  #rest(): void {
    this.#cancel?.()
    this.#cancel = undefined
    this.#isLate = false
  }

  async #check(): Promise<void> {
    this.#isLate = true
    const reason = this.#isOpen ? undefined : await waitReason(this.#endpoint, this.#lostBy)
    if (this.#isEnded || this.#isWhole) return this.#rest()
    if (this.#isOpen) this.#sayListing()
    else if (reason !== undefined) this.#sayOnce(reason)
    this.#cancel = this.#after(againMs)
  }

  /** Reports the progress of a listing, which changes often, at most once per `againMs`. */
  #sayListing(): void {
    const { is, why: progress } = this.#shown?.state ?? {}
    const now = this.#endpoint.clock.now()
    if (is !== 'syncing' || now - this.#listingAt < againMs) return
    this.#listingAt = now
    this.#sayOnce(`the agent is still listing its cluster${progress ? `: ${progress}` : ''}`)
  }

  #sayOnce(reason: string): void {
    const key = lastingReason(reason)
    if (this.#reasons.has(key) || this.#reasons.size >= maxReasons) return
    this.#reasons.add(key)
    this.#say(reason)
  }
}
