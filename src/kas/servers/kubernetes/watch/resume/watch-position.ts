import { type EventFacts, maxResourceVersionChars } from './event-facts.ts'

/** Parts of a watch's query that decide from where it can go on. */
export interface WatchStart {
  /** resourceVersion of the client; undefined: none, or 0, which means any */
  readonly resourceVersion: string | undefined
  /** existing objects come first, and then a bookmark that marks their end */
  readonly sendsInitialEvents: boolean
  /** false: bookmarks are requested nevertheless, and removed */
  readonly wantsBookmarks: boolean
}

/**
 * Tracks the event after which a watch can go on. Events of existing objects come in any order, with older versions:
 * they do not count until something shows that all of them have come.
 */
export class WatchPosition {
  readonly #start: WatchStart
  readonly #read: (event: Uint8Array) => EventFacts | undefined
  #isStarted: boolean
  #hasFailed = false
  #resourceVersion: string | undefined
  /** last event, while it is not read yet */
  #last: Uint8Array | undefined

  constructor(start: WatchStart, read: (event: Uint8Array) => EventFacts | undefined) {
    this.#start = start
    this.#read = read
    this.#isStarted = start.resourceVersion !== undefined && !start.sendsInitialEvents
    this.#resourceVersion = this.#isStarted ? start.resourceVersion : undefined
  }

  /** Version from which the watch can go on; undefined: it cannot. Reading it drops the kept event. */
  get resourceVersion(): string | undefined {
    this.#settle()
    return this.#hasFailed ? undefined : this.#resourceVersion
  }

  /** @returns true: the client gets the event */
  follow(event: Uint8Array): boolean {
    const type = quickType(event)
    if (type === 'ADDED' && !this.#isStarted) return true
    if (type === 'ADDED' || type === 'MODIFIED' || type === 'DELETED') {
      this.#isStarted ||= !this.#start.sendsInitialEvents
      if (this.#isStarted) this.#last = event // only the last event of a piece is read
      return true
    }
    const facts = this.#read(event)
    this.#last = undefined
    this.#take(facts)
    return facts?.type !== 'BOOKMARK' || this.#start.wantsBookmarks
  }

  /** Forgets the position, because an event passed unread: the watch cannot go on until the next event. */
  lose(): void {
    this.#resourceVersion = undefined
  }

  /** Reads the last event, if it was not read yet. */
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

/** Returns the type of an event in an API server's usual JSON; undefined: the event must be read. */
function quickType(event: Uint8Array): (typeof types)[number] | undefined {
  for (const [type, beginning] of beginnings) if (beginning.equals(event.subarray(0, beginning.length))) return type
  return undefined
}
