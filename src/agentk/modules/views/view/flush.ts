import type { Clock } from '../../../../lib/clock.ts'
import { updatePauseMs } from '../store/fair-turns.ts'

export interface Made {
  readonly json: Uint8Array
  /** there is more to say */
  readonly isPart: boolean
}

export interface FlushComponents {
  readonly clock: Clock
  /** Others that send have theirs. @returns ends the wait for it */
  readonly inTurn: (action: () => void) => () => void
  /** What is due now may differ: told before anything is made. */
  readonly onDue: () => void
  /** What differs from what was sent, now. @returns undefined: nothing */
  readonly make: (seq: number) => Made | undefined
  readonly send: (seq: number, json: Uint8Array) => void
}

/** When a view sends: the first update at once, then in steps, each once the one before was taken. */
export class Flush {
  readonly #components: FlushComponents
  #isAsked = false
  #isClosed = false
  #isInFlight = false
  #seq = 0
  #sentAt = Number.NEGATIVE_INFINITY
  #cancel: (() => void) | undefined

  constructor(components: FlushComponents) {
    this.#components = components
  }

  /** Something may differ. */
  request(): void {
    this.#isAsked = true
    this.#schedule()
  }

  taken(seq: number): void {
    if (seq !== this.#seq) return
    this.#isInFlight = false
    this.#schedule()
  }

  close(): void {
    this.#isClosed = true
    this.#cancel?.()
  }

  #schedule(): void {
    if (!this.#isAsked || this.#isInFlight || this.#cancel || this.#isClosed) return
    const { clock } = this.#components
    this.#cancel = clock.after(Math.max(0, this.#sentAt + updatePauseMs - clock.now()), () => this.#wait())
  }

  #wait(): void {
    let isOver = false
    const cancel = this.#components.inTurn(() => {
      isOver = true
      this.#flush()
    })
    if (!isOver) this.#cancel = cancel
  }

  #flush(): void {
    const { clock, onDue, make, send } = this.#components
    onDue() // what it asks for is part of this
    this.#cancel = undefined
    this.#isAsked = false
    const made = make(this.#seq + 1)
    if (!made) return
    this.#seq++
    this.#sentAt = clock.now()
    this.#isInFlight = true
    if (made.isPart) this.#isAsked = true
    send(this.#seq, made.json)
  }
}
