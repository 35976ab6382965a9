import { type EventFacts, maxResourceVersionChars } from './event-facts.ts'

/** How a watch was asked for, as far as it says from where it goes on. */
export interface WatchStart {
  /** named by the client; undefined: none, or 0, which is any */
  readonly resourceVersion: string | undefined
  /** all that is there comes first, then a bookmark that says so */
  readonly sendsInitialEvents: boolean
  /** else they are asked for all the same, and taken out */
  readonly wantsBookmarks: boolean
}

/**
 * How far a watch has come: behind which event it could go on. What was there as it began comes in any order, with versions of
 * before; those say nothing until something shows that all of it has come.
 */
export class WatchPosition {
  readonly #start: WatchStart
  readonly #read: (event: Uint8Array) => EventFacts | undefined
  #isStarted: boolean
  #hasFailed = false
  #resourceVersion: string | undefined
  /** not read yet */
  #last: Uint8Array | undefined

  constructor(start: WatchStart, read: (event: Uint8Array) => EventFacts | undefined) {
    this.#start = start
    this.#read = read
    this.#isStarted = start.resourceVersion !== undefined && !start.sendsInitialEvents
    this.#resourceVersion = this.#isStarted ? start.resourceVersion : undefined
  }

  /** Undefined: it cannot go on. No event is kept any more. */
  get resourceVersion(): string | undefined {
    this.#settle()
    return this.#hasFailed ? undefined : this.#resourceVersion
  }

  /** @returns whether the client gets it */
  follow(event: Uint8Array): boolean {
    const type = quickType(event)
    if (type === 'ADDED' && !this.#isStarted) return true
    if (type === 'ADDED' || type === 'MODIFIED' || type === 'DELETED') {
      this.#isStarted ||= !this.#start.sendsInitialEvents
      if (this.#isStarted) this.#last = event // the last one of a piece is read
      return true
    }
    const facts = this.#read(event)
    this.#last = undefined
    this.#take(facts)
    return facts?.type !== 'BOOKMARK' || this.#start.wantsBookmarks
  }

  /** An event passes that is not read: it cannot go on before the next one. */
  lose(): void {
    this.#resourceVersion = undefined
  }

  /** Reads what is left to be read. */
  #settle(): void {
    if (!this.#last) return
    const facts = this.#read(this.#last)
    this.#last = undefined
    this.#take(facts)
  }

  #take(facts: EventFacts | undefined): void {
    if (facts?.type === 'ERROR') this.#hasFailed = true
    this.#isStarted ||=
      facts?.endsInitialEvents === true || (!this.#start.sendsInitialEvents && facts?.type !== 'ADDED')
    const { resourceVersion = '' } = facts ?? {}
    const isOne = resourceVersion !== '' && resourceVersion.length <= maxResourceVersionChars
    if (this.#isStarted) this.#resourceVersion = isOne ? resourceVersion : undefined
  }
}

const types = ['ADDED', 'MODIFIED', 'DELETED'] as const
const beginnings = types.map((type) => [type, Buffer.from(`{"type":"${type}",`)] as const)

/** Of an event as API servers write it in JSON; undefined: it has to be read. */
function quickType(event: Uint8Array): (typeof types)[number] | undefined {
  for (const [type, beginning] of beginnings) if (beginning.equals(event.subarray(0, beginning.length))) return type
  return undefined
}
